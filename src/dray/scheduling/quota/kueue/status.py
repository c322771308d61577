"""QueueStatuses: the status of Kueue's queues: whether they admit pods, their usage, and how many workloads wait.

A workload is a group of pods that start together, or a single pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from dray.api.objects import Key, Object, condition_of, metadata_of
from dray.api.quantity import Format, Quantity
from dray.api.times import text_of
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.quota.kueue.kinds import ClusterQueue, local_of
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.shares import share_of
from dray.scheduling.quota.queue_policy import Asset

_READY: Final = ("True", "Ready", "Can admit new workloads")
_REASONS: Final = {
    Code.QUEUE_NOT_FOUND: "FlavorNotFound",
    Code.TOPOLOGY_NOT_FOUND: "TopologyNotFound",
    Code.QUEUE_CHECKS: "AdmissionCheckInactive",
    Code.QUEUE_CYCLE: "CohortCycle",
}


class QueueStatuses:
    """Computes the current status of all queues. `document` is the last seen version of the queue's object."""

    def __init__(self, queues: KueueQueues, now: float) -> None:
        self._queues = queues
        self._now = now
        queues.charges.refresh()
        self._running: dict[Key, set[Hashable]] = {}
        self._used: dict[Key, Counter[Asset]] = {}
        for pod in queues.charges.pods():
            self._running.setdefault(local_of(pod), set()).add(workload_of(pod))
            self._used.setdefault(local_of(pod), Counter()).update(queues.charges.counted(pod))

    def of_cluster_queue(self, queue: ClusterQueue, document: Object) -> Object:
        own = [key for key, local in self._queues.local_queues().items() if local.cluster_queue == queue.name]
        used = {asset: self._queues.tree.used(queue.name, asset) for asset in queue.quotas}
        status: Object = {
            "conditions": [self._active(document, self._state(queue))],
            **self._counts(own),
            **_usage(used, {asset: max(0, used[asset] - quota.nominal) for asset, quota in queue.quotas.items()}),
        }
        if self._queues.is_fair(self._queues.tree.root(queue.name)):
            status["fairSharing"] = {"weightedShare": share_of(self._queues.tree.node(queue.name)).shown}
        return status

    def of_local_queue(self, key: Key, document: Object) -> Object:
        local = self._queues.local_queues()[key]
        queue = self._queues.cluster_queue(local.cluster_queue)
        state = ("False", "ClusterQueueDoesNotExist", f"ClusterQueue {local.cluster_queue} does not exist")
        if queue is not None:
            state = self._state(queue)
            if state[0] != "True":
                state = ("False", "ClusterQueueIsInactive", state[2])
        if local.stopped:
            state = ("False", "Stopped", "LocalQueue is stopped")
        used = self._used.get(key, Counter())
        quotas = queue.quotas if queue is not None else {}
        status: Object = {
            "conditions": [self._active(document, state)],
            **self._counts([key]),
            **_usage({asset: used[asset] for asset in quotas}, None),
        }
        usage = self._queues.order.usage
        if queue is not None and queue.by_usage and (at := usage.sampled(key)) is not None:
            consumed = {name: _fraction(name, amount) for name, amount in usage.consumed(key).items()}
            past = {"consumedResources": consumed, "lastUpdate": text_of(at)}
            status["fairSharing"] = {"admissionFairSharingStatus": past}
        return status

    def _state(self, queue: ClusterQueue) -> tuple[str, str, str]:
        if queue.stopped:
            return "False", "Stopped", "ClusterQueue is stopped"
        reason = self._queues.inactive(queue)
        if reason is None:
            return _READY
        return "False", _REASONS[reason.code], f"Can't admit new workloads: {', '.join(reason.args)}"

    def _active(self, document: Object, state: tuple[str, str, str]) -> Object:
        known = condition_of(document, "Active")
        status, reason, message = state
        same = known is not None and known.get("status") == status
        return {
            "type": "Active",
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": int(metadata_of(document).get("generation") or 0),
            "lastTransitionTime": known["lastTransitionTime"] if known is not None and same else text_of(self._now),
        }

    def _counts(self, local_queues: Iterable[Key]) -> Object:
        keys = list(local_queues)
        running = sum(len(self._running.get(key, ())) for key in keys)
        pending = sum(len(self._queues.order.pending(key)) for key in keys)
        return {"pendingWorkloads": pending, "reservingWorkloads": running, "admittedWorkloads": running}


def workload_of(pod: Pod) -> Hashable:
    return pod.group or pod.uid


def _usage(used: Mapping[Asset, int], borrowed: Mapping[Asset, int] | None) -> Object:
    flavors: dict[str, list[Object]] = {}
    for asset, amount in used.items():
        entry = {"name": asset.resource, "total": _amount(asset.resource, amount)}
        if borrowed is not None:
            entry["borrowed"] = _amount(asset.resource, borrowed[asset])
        flavors.setdefault(asset.flavor, []).append(entry)
    listed = [{"name": name, "resources": resources} for name, resources in flavors.items()]
    # An admitted workload is placed at once, so that reservation and usage are equal.
    return {"flavorsReservation": listed, "flavorsUsage": listed}


def _amount(resource: str, amount: int) -> str:
    return str(Quantity(amount, -3 if resource == "cpu" else 0, Format.DECIMAL_SI).canonical())


def _fraction(resource: str, amount: float) -> str:
    """Returns an amount as a quantity, rounded to a thousandth."""
    scale = 1 if resource == "cpu" else 1000
    return Quantity(round(amount * scale), -3, Format.DECIMAL_SI).canonical()
