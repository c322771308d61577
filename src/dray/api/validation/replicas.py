"""ReplicaSet, ReplicationController and Deployment: how many pods, which, made from what, and how they are replaced.

The selector of the kinds of `apps` must match the labels of the template and never changes; that of a
ReplicationController may.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api import errors
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields, pods, rolling_updates
from dray.api.validation.fields import Errors

_REPLICA_COUNTS = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
_DEPLOYMENT_COUNTS = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
)
_TYPES = ["Recreate", "RollingUpdate"]


def validate_replica_set(obj: Object, rules: Rules) -> Errors:
    spec = obj["spec"]
    yield from fields.not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    if spec.get("selector") is None:
        yield errors.required("spec.selector")
    yield from rolling_updates.selected_template(spec, "ReplicaSet", owner="Deployment")


def validate_replica_set_update(obj: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_replica_set(obj, rules)
    yield from fields.immutable(obj["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def validate_replicas_status(obj: Object, old: Object, rules: Rules) -> Errors:
    """Validates the status of a ReplicaSet or a ReplicationController."""
    status = obj["status"]
    yield from fields.not_negative(status, (*_REPLICA_COUNTS, "terminatingReplicas"), "status")
    yield from _at_most(status, _REPLICA_COUNTS[1:4], "replicas")
    yield from _at_most(status, ("availableReplicas",), "readyReplicas")


def validate_replication_controller(obj: Object, rules: Rules) -> Errors:
    spec = obj["spec"]
    yield from fields.not_negative(spec, ("minReadySeconds", "replicas"), "spec")
    if not spec.get("selector"):
        yield errors.required("spec.selector")
    if spec.get("template") is None:
        yield errors.required("spec.template")
    else:
        matched = {"matchLabels": spec.get("selector") or {}}
        yield from rolling_updates.lasting_template(spec["template"], matched, "ReplicationController")


def validate_deployment(obj: Object, rules: Rules) -> Errors:
    spec = obj["spec"]
    yield from fields.not_negative(spec, ("replicas",), "spec")
    if spec.get("selector") is None:
        yield errors.required("spec.selector")
    yield from rolling_updates.selected_template(spec, "ReplicaSet", owner="Deployment")
    yield from _strategy(spec.get("strategy") or {}, "spec.strategy")
    yield from fields.not_negative(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec")
    yield from fields.not_negative(spec, ("progressDeadlineSeconds",), "spec")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def validate_deployment_update(obj: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_deployment(obj, rules)
    yield from fields.immutable(obj["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def validate_deployment_status(obj: Object, old: Object, rules: Rules) -> Errors:
    status = obj["status"]
    yield from rolling_updates.status(obj, old, _DEPLOYMENT_COUNTS)
    yield from _at_most(status, ("updatedReplicas", "readyReplicas", "availableReplicas"), "replicas")
    yield from _at_most(status, ("availableReplicas",), "readyReplicas")


def _at_most(status: Object, members: Iterable[str], bound: str) -> Errors:
    """No member of the status is greater than its member `bound`."""
    for member in members:
        if (status.get(member) or 0) > (status.get(bound) or 0):
            name = bound if bound == "readyReplicas" else f"status.{bound}"
            yield errors.invalid(f"status.{member}", status.get(member), f"cannot be greater than {name}")


def _strategy(strategy: Object, path: str) -> Errors:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            yield errors.forbidden(f"{path}.rollingUpdate", detail)
    elif kind == "RollingUpdate":
        yield from _rolling_update(rolling or {}, f"{path}.rollingUpdate")
    else:
        yield errors.not_supported(path, strategy, _TYPES)


def _rolling_update(rolling: Object, path: str) -> Errors:
    bounds = {member: rolling.get(member) or 0 for member in ("maxUnavailable", "maxSurge")}
    yield from rolling_updates.amount(bounds["maxUnavailable"], f"{path}.maxUnavailable")
    yield from rolling_updates.amount(bounds["maxSurge"], f"{path}.maxSurge", most=None)
    if all(map(rolling_updates.is_zero, bounds.values())):
        detail = "may not be 0 when `maxSurge` is 0"
        yield errors.invalid(f"{path}.maxUnavailable", bounds["maxUnavailable"], detail)


def validate_pod_template(obj: Object, rules: Rules) -> Errors:
    """A PodTemplate: a template that stands by itself."""
    yield from pods.validate_template(obj["template"], "template")
