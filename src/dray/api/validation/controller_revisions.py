"""ControllerRevision: a snapshot of a template that never changes, and its number."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors


def validate(revision: Object, rules: Rules) -> Errors:
    if revision.get("data") is None:
        yield errors.required("data", "data is mandatory")
    yield from fields.not_negative(revision, ("revision",), "")


def validate_update(revision: Object, old: Object, rules: Rules) -> Errors:
    yield from validate(revision, rules)
    yield from fields.immutable(revision.get("data"), old.get("data"), "data")
