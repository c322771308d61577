"""Tolerations of pods, and the taints of nodes that they answer."""

from __future__ import annotations

import re

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation.fields import Errors

EFFECTS = ["NoExecute", "NoSchedule", "PreferNoSchedule"]
_COMPARING = ("Gt", "Lt")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_MIN, _MAX = -(2**63), 2**63 - 1


def validate(tolerations: list[Object], path: str) -> Errors:
    for index, toleration in enumerate(tolerations):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: Object, path: str) -> Errors:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    effect = toleration.get("effect", "")
    if key and not names.is_label_key(key):
        yield errors.invalid(f"{path}.key", key, names.LABEL_KEY_DETAIL)
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield errors.invalid(f"{path}.operator", operator, detail)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield errors.invalid(f"{path}.effect", effect, detail)
    yield from _value(operator, toleration.get("value", ""), path)
    if effect and effect not in EFFECTS:
        yield errors.not_supported(f"{path}.effect", effect, EFFECTS)


def _value(operator: str, value: str, path: str) -> Errors:
    if operator in ("Equal", ""):
        if not names.is_label_value(value):
            yield errors.invalid(f"{path}.operator", value, names.LABEL_VALUE_DETAIL)
    elif operator == "Exists":
        if value:
            yield errors.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in _COMPARING:
        if not is_int64(value):
            yield errors.invalid(f"{path}.value", value, "must be a decimal integer within the range of int64")
    else:
        yield errors.not_supported(f"{path}.operator", operator, ["Equal", "Exists", *_COMPARING])


def is_int64(text: str) -> bool:
    """Returns True for a decimal 64-bit integer without leading zeros."""
    return _INTEGER.fullmatch(text) is not None and _MIN <= int(text) <= _MAX


def validate_taints(taints: list[Object], path: str) -> Errors:
    seen = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        if not names.is_label_key(taint["key"]):
            yield errors.invalid(f"{at}.key", taint["key"], names.LABEL_KEY_DETAIL)
        if not names.is_label_value(taint.get("value", "")):
            yield errors.invalid(f"{at}.value", taint["value"], names.LABEL_VALUE_DETAIL)
        if not taint["effect"]:
            yield errors.required(f"{at}.effect")
        elif taint["effect"] not in EFFECTS:
            yield errors.not_supported(f"{at}.effect", taint["effect"], EFFECTS)
        identity = (taint["key"], taint["effect"])
        if identity in seen:
            yield errors.duplicate(at, taint)
        seen.add(identity)
