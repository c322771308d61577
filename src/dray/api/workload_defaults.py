"""Defaults of the kinds whose pods run for ever: ReplicaSet, Deployment, ReplicationController, and of PodTemplates."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.objects import Object, labels_of
from dray.api.pod_defaults import default_pod_spec

_QUARTER = "25%"
_HISTORY = 10
_PROGRESS_SECONDS = 600


def default_workload(obj: Object) -> None:
    _DEFAULTS[obj["kind"]](obj)


def default_pod_template(template: Object) -> None:
    default_pod_spec(template["spec"], template=True)


def _replica_set(obj: Object) -> None:
    obj["spec"].setdefault("replicas", 1)
    default_pod_template(obj["spec"]["template"])


def _deployment(obj: Object) -> None:
    _replica_set(obj)
    spec = obj["spec"]
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", _QUARTER)
        rolling.setdefault("maxSurge", _QUARTER)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    spec.setdefault("progressDeadlineSeconds", _PROGRESS_SECONDS)


def _replication_controller(obj: Object) -> None:
    """Sets the defaults of a ReplicationController; selector and labels default to the template's labels."""
    spec = obj["spec"]
    spec.setdefault("replicas", 1)
    if spec.get("template") is None:
        return
    default_pod_template(spec["template"])
    labels = labels_of(spec["template"])
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    if labels and not labels_of(obj):
        obj["metadata"]["labels"] = dict(labels)


def _pod_template(obj: Object) -> None:
    default_pod_template(obj["template"])


_DEFAULTS: dict[str, Callable[[Object], None]] = {
    "Deployment": _deployment,
    "PodTemplate": _pod_template,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replication_controller,
}
