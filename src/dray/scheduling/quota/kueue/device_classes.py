"""CoveredClasses: the device classes whose devices pods of a ClusterQueue may use.

A queue with quota for devices covers the classes that its quota names, by themselves, by their extended resource or by
the capacity of their devices. The queue admits no pod with devices of another class, unless an annotation allows it.
Kueue admits no workload with a class that is mapped to no resource, or to a resource that the queue does not cover.
Queues without quota for devices do not count devices.
"""

from __future__ import annotations

from dray.scheduling.cluster.extended import IMPLICIT, ResourceMap
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.quota.kueue import kinds as kueue
from dray.scheduling.quota.kueue.kinds import ClusterQueue


class CoveredClasses:
    def __init__(self, resources: ResourceMap) -> None:
        self._resources = resources
        self._excluded: dict[tuple[str, str], Reason | None] = {}
        """Reasons to reject a class, by queue and class. The cache is read for every pod of a queue."""

    def clear(self) -> None:
        """Clears the cache, because queues or classes changed."""
        self._excluded.clear()

    def excludes(self, queue: ClusterQueue, class_name: str) -> Reason | None:
        """Returns why pods of the queue may not use devices of a class; None if they may."""
        key = queue.name, class_name
        if key not in self._excluded:
            covered = not self.limits(queue) or self._covers(queue, class_name)
            self._excluded[key] = None if covered else _uncovered(queue, class_name)
        return self._excluded[key]

    def limits(self, queue: ClusterQueue) -> bool:
        """Whether the queue has quota for devices, and admits no pod with devices of other classes."""
        if queue.allows_uncovered_classes:
            return False
        return any(IMPLICIT in name or self._resources.class_of(name) is not None for name in queue.covering)

    def _covers(self, queue: ClusterQueue, class_name: str) -> bool:
        if any(queue.group_of(name) is not None for name in self._resources.names(class_name)):
            return True
        return any(name.endswith(f".{IMPLICIT}{class_name}") for name in queue.covering)


def _uncovered(queue: ClusterQueue, class_name: str) -> Reason:
    return Reason(Code.QUEUE_UNCOVERED_CLASS, (queue.name, class_name, IMPLICIT + class_name, kueue.UNCOVERED_CLASSES))
