"""PriorityClass: a number that users may choose up to a limit, and that stays."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_VALUE = 1_000_000_000
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREFIX = "system-"
_POLICIES = ["Never", "PreemptLowerPriority"]


def validate(priority: Object, rules: Rules) -> Errors:
    name, value = priority["metadata"].get("name", ""), priority["value"]
    if name.startswith(_PREFIX):
        if SYSTEM_CLASSES.get(name) != value:
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            yield errors.forbidden("metadata.name", detail)
    elif value > MAX_VALUE:
        yield errors.forbidden("value", f"maximum allowed value of a user defined priority is {MAX_VALUE}")
    yield from fields.enum(priority.get("preemptionPolicy"), _POLICIES, "preemptionPolicy", required=True)


def validate_update(priority: Object, old: Object, rules: Rules) -> Errors:
    if priority["value"] != old["value"]:
        yield errors.forbidden("value", "may not be changed in an update.")
    yield from fields.immutable(priority.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
