"""Lists of metav1.Condition."""

from __future__ import annotations

import re

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_REASON = 1024
MAX_MESSAGE = 32768
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)


def validate(conditions: list[Object], path: str, *, limit: int | None = None) -> Errors:
    if limit is not None and len(conditions) > limit:
        yield errors.too_many(path, len(conditions), limit)
        return
    yield from fields.limited(conditions, len(conditions), path, _condition, key=fields.by("type"))


def _condition(condition: Object, path: str) -> Errors:
    kind = condition["type"]
    if not kind:
        yield errors.required(f"{path}.type")
    elif not names.is_label_key(kind):
        yield errors.invalid(f"{path}.type", kind, names.LABEL_KEY_DETAIL)
    status = condition["status"]
    if not status:
        yield errors.required(f"{path}.status")
    yield from fields.enum(status, ["True", "False", "Unknown"], f"{path}.status")
    if condition.get("observedGeneration", 0) < 0:
        yield errors.invalid(f"{path}.observedGeneration", condition["observedGeneration"], "must not be negative")
    if not condition["lastTransitionTime"]:
        yield errors.required(f"{path}.lastTransitionTime")
    yield from _reason(condition["reason"], f"{path}.reason")
    if names.size(condition["message"]) > MAX_MESSAGE:
        yield errors.too_long(f"{path}.message", MAX_MESSAGE)


def _reason(reason: str, path: str) -> Errors:
    if not reason:
        yield errors.required(path)
        return
    if not _REASON.fullmatch(reason):
        yield errors.invalid(path, reason, "a letter, then letters, digits, '_', ',' and ':', not ending in ',' or ':'")
    if names.size(reason) > MAX_REASON:
        yield errors.too_long(path, MAX_REASON)
