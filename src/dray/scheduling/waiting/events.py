"""Events that may help waiting pods. Each event is passed to `WaitIndex.wake`, which finds the pods that wait for
it."""

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
    """An object was created, changed or deleted, or pods that wait for it may use it now."""

    changed: ObjectRef


@dataclass(frozen=True, slots=True)
class PodsReady:
    """Pods need not wait any more: it is their turn, or the quota that they lacked may be free."""

    uids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReasonsOutdated:
    """Reported reasons of pods are outdated: they name claims that hold no devices any more."""

    pods: Sequence[QueuedPod]


@dataclass(frozen=True, slots=True)
class QuotaFreed:
    """Quota was freed."""

    quotas: frozenset[ObjectRef]


@dataclass(frozen=True, slots=True)
class SharesChanged:
    """Shares changed, so that other pods may be evicted for pods of a queue system."""

    policy: QueuePolicy


@dataclass(frozen=True, slots=True)
class SearchEnded:
    """A search for devices in the background found devices, or was the last search for the demand."""

    demand: DeviceDemand


@dataclass(frozen=True, slots=True)
class PodBound:
    """A pod was bound, so that it may be evicted from now on."""


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Nodes, or nominations of pods, may have changed; the logs of the state tell which nodes."""

    work: Work
    """The work budget for finding the pods that the change may help."""


Event = ObjectChanged | PodsReady | ReasonsOutdated | QuotaFreed | SharesChanged | SearchEnded | PodBound | NodesChanged
