"""PodDisruptionBudget: one bound, as a number or in percent, and the pods it is for."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields, metadata, rolling_updates
from dray.api.validation.fields import Errors

_BOUNDS = ("minAvailable", "maxUnavailable")
_POLICIES = ["AlwaysAllow", "IfHealthyBudget"]
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate(budget: Object, rules: Rules) -> Errors:
    spec = budget["spec"]
    if all(spec.get(member) is not None for member in _BOUNDS):
        yield errors.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for member in _BOUNDS:
        if spec.get(member) is not None:
            yield from rolling_updates.amount(spec[member], f"spec.{member}")
    if spec.get("selector") is not None:
        yield from metadata.label_selector(spec["selector"], "spec.selector")
    yield from fields.enum(spec.get("unhealthyPodEvictionPolicy"), _POLICIES, "spec.unhealthyPodEvictionPolicy")


def validate_status(budget: Object, old: Object, rules: Rules) -> Errors:
    status = budget["status"]
    yield from fields.conditions(status.get("conditions") or [], "status.conditions")
    yield from fields.not_negative(status, _COUNTS, "status")
