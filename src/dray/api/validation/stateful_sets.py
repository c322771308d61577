"""StatefulSet: its template, order and volume claims, and the few members of its spec that may change."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import fields, rolling_updates
from dray.api.validation.fields import Errors

_COUNTS = tuple("replicas readyReplicas currentReplicas updatedReplicas availableReplicas observedGeneration".split())
_MUTABLE = frozenset(
    "replicas ordinals template updateStrategy revisionHistoryLimit persistentVolumeClaimRetentionPolicy "
    "minReadySeconds".split()
)
_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate(stateful_set: Object, rules: Rules) -> Errors:
    yield from _spec(stateful_set["spec"])
    if stateful_set["spec"].get("serviceName"):
        yield from fields.label(stateful_set["spec"]["serviceName"], "spec.serviceName")


def _spec(spec: Object) -> Errors:
    policy = spec.get("podManagementPolicy")
    if not policy:
        yield errors.required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        yield errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _strategy(spec["updateStrategy"], "spec.updateStrategy")
    retention, path = mapping(spec.get("persistentVolumeClaimRetentionPolicy")), "persistentVolumeClaimRetentionPolicy"
    for member in ("whenDeleted", "whenScaled"):
        yield from fields.enum(retention.get(member), ["Delete", "Retain"], f"spec.{path}.{member}", required=True)
    yield from fields.not_negative(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), "spec")
    yield from fields.not_negative(mapping(spec.get("ordinals")), ("start",), "spec.ordinals")
    if spec.get("selector") is None:
        yield errors.required("spec.selector")
    yield from rolling_updates.selected_template(spec, "StatefulSet")


def _strategy(strategy: Object, path: str) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if not kind:
        yield errors.required(path)
    elif kind in ("OnDelete", "Recreate"):
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            yield errors.invalid(f"{path}.rollingUpdate", rolling, detail)
    elif kind != "RollingUpdate":
        yield errors.invalid(path, strategy, "must be 'RollingUpdate', 'OnDelete', or 'Recreate'")
    elif rolling is not None:
        yield from fields.not_negative(rolling, ("partition",), f"{path}.rollingUpdate")
        unavailable, at = rolling.get("maxUnavailable"), f"{path}.rollingUpdate.maxUnavailable"
        yield from rolling_updates.amount(unavailable, at)
        if unavailable is not None and rolling_updates.is_zero(unavailable):
            yield errors.invalid(at, unavailable, "cannot be 0")


def validate_update(stateful_set: Object, old: Object, rules: Rules) -> Errors:
    yield from _spec(stateful_set["spec"])
    kept, before = (
        {name: value for name, value in obj["spec"].items() if name not in _MUTABLE} for obj in (stateful_set, old)
    )
    if kept != before:
        yield errors.forbidden("spec", _FIXED)


def validate_status(stateful_set: Object, old: Object, rules: Rules) -> Errors:
    yield from rolling_updates.status(stateful_set, old, _COUNTS)
    status = mapping(stateful_set.get("status"))
    for member in _COUNTS[1:5]:
        count = status.get(member) or 0
        if count > (status.get("replicas") or 0):
            yield errors.invalid(f"status.{member}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas") or 0
    if available > (status.get("readyReplicas") or 0):
        yield errors.invalid("status.availableReplicas", available, "cannot be greater than status.readyReplicas")
