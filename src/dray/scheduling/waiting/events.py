"""Events that may help pods that wait: each of them goes to `WaitIndex.wake`, which knows who waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dray.allocation import Work
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.queue_policy import QueuePolicy
from dray.scheduling.waiting.queued_pods import QueuedPod


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """An object was created, changed or deleted, or what it stands for is free again."""

    changed: ObjectRef


@dataclass(frozen=True, slots=True)
class PodsReady:
    """Pods have nothing to wait for any more: it is their turn, or quota that they lacked may be there."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReasonsOutdated:
    """What was reported about pods holds no longer, as it names claims that hold no devices any more."""

    pods: Sequence[QueuedPod]


@dataclass(frozen=True, slots=True)
class QuotaFreed:
    """There is more of some quotas than before."""

    quotas: frozenset[ObjectRef]


@dataclass(frozen=True, slots=True)
class SharesChanged:
    """Pods of a queue system may have become entitled to evictions."""

    policy: QueuePolicy


@dataclass(frozen=True, slots=True)
class SearchEnded:
    """A search for devices that was continued elsewhere found something, or was the last one for the demand."""

    demand: DeviceDemand


@dataclass(frozen=True, slots=True)
class PodBound:
    """The server knows where a pod is: it may be evicted from now on."""


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Something may have changed on nodes, or in the places of pods; the state knows where."""

    work: Work
    """What may be spent on finding out whom that helps."""


Event = ObjectChanged | PodsReady | ReasonsOutdated | QuotaFreed | SharesChanged | SearchEnded | PodBound | NodesChanged
