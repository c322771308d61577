"""spec.scheduling of a Job: how its pods are scheduled as a group."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.validation import fields
from dray.api.validation.fields import Errors

_PATH = "spec.scheduling"
_VARIANT = (
    "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
)


def validate(scheduling: Object, parallelism: int) -> Errors:
    policy = scheduling.get("schedulingPolicy")
    if policy is not None:
        yield from fields.union(policy, ("basic", "gang"), f"{_PATH}.schedulingPolicy")
        count = mapping(policy.get("gang")).get("minCount")
        at = f"{_PATH}.schedulingPolicy.gang.minCount"
        if count is not None and count <= 0:
            yield errors.invalid(at, count, "must be greater than or equal to 1")
        elif count is not None and count > parallelism:
            yield errors.invalid(at, count, f"must not be greater than parallelism ({parallelism})")
    if scheduling.get("disruptionMode") is not None:
        yield from fields.union(scheduling["disruptionMode"], ("single", "all"), f"{_PATH}.disruptionMode")


def validate_update(scheduling: Object | None, before: Object | None) -> Errors:
    """Only the size of a gang may change."""
    if scheduling is None or before is None:
        yield from fields.immutable(scheduling, before, _PATH, declarative=True)
        return
    for member in ("schedulingConstraints", "resourceClaims", "disruptionMode"):
        yield from fields.immutable(scheduling.get(member), before.get(member), f"{_PATH}.{member}", declarative=True)
    policy, old = scheduling.get("schedulingPolicy"), before.get("schedulingPolicy")
    if policy is None or old is None:
        yield from fields.immutable(policy, old, f"{_PATH}.schedulingPolicy", declarative=True)
    elif (policy.get("gang") is None) != (old.get("gang") is None):
        yield errors.invalid(f"{_PATH}.schedulingPolicy", None, _VARIANT)
