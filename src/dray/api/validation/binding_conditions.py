"""Conditions that must hold, or must not, before a pod is bound: of devices and of allocation results."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_CONDITIONS = 4


def validate(value: Object, path: str) -> Errors:
    """Both lists or neither, each at most four, unique, and no condition in both."""
    binding, failure = value.get("bindingConditions") or [], value.get("bindingFailureConditions") or []

    def check(name: str, at: str) -> Errors:
        if not names.is_label_key(name):
            yield errors.invalid(at, name, names.LABEL_KEY_DETAIL)

    for member, items in (("bindingConditions", binding), ("bindingFailureConditions", failure)):
        yield from fields.limited(items, MAX_CONDITIONS, f"{path}.{member}", check, key=fields.itself, declarative=True)
    for index, name in enumerate(failure):
        if name in binding:
            yield errors.invalid(
                f"{path}.bindingFailureConditions[{index}]", name, "must not be in bindingConditions as well"
            )
    if binding and not failure:
        yield errors.invalid(f"{path}.bindingFailureConditions", [], "must be set if bindingConditions is set")
    if failure and not binding:
        yield errors.invalid(f"{path}.bindingConditions", [], "must be set if bindingFailureConditions is set")
