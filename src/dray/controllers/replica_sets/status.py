"""The status of a ReplicaSet: how many of its pods there are of which sort, and why there are not enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dray.api.objects import Object, is_deleting, labels_of, spec_of, status_of
from dray.api.pods import is_active, is_ready, is_terminal
from dray.client.clock import timestamp
from dray.client.errors import ClientError
from dray.controllers.replica_sets.replicated import Replicated
from dray.controllers.workloads.availability import is_available

REPLICA_FAILURE: Final = "ReplicaFailure"


def status(
    owner: Object,
    pods: Sequence[Object],
    failure: tuple[str, ClientError] | None,
    now: datetime,
    replicated: Replicated,
) -> Object:
    """Computes the status. `failure` is the event reason and error of a failed write of pods."""
    labels = labels_of(spec_of(owner).get("template") or {})
    active = [pod for pod in pods if is_active(pod)]
    min_ready = spec_of(owner).get("minReadySeconds") or 0
    found: Object = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(labels.items() <= labels_of(pod).items() for pod in active),
        "readyReplicas": sum(map(is_ready, active)),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in active),
        "observedGeneration": owner["metadata"].get("generation", 0),
    }
    shown = {name: number for name, number in found.items() if number or name == "replicas"}
    if replicated.counts_terminating:
        shown["terminatingReplicas"] = sum(is_deleting(pod) and not is_terminal(pod) for pod in pods)
    conditions = _conditions(owner, failure, now)
    return {**shown, "conditions": conditions} if conditions else shown


def _conditions(owner: Object, failure: tuple[str, ClientError] | None, now: datetime) -> list[Object]:
    present = list(status_of(owner).get("conditions") or ())
    others = [each for each in present if each.get("type") != REPLICA_FAILURE]
    if failure is None:
        return others
    if len(others) < len(present):
        # It says since when pods cannot be made, and why that began.
        return present
    reason, error = failure
    condition = {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": str(error),
    }
    return [*others, condition]
