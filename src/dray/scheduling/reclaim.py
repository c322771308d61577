"""Reclaimer: whom to remove so that a pod gets quota of its queue that others have, as the queue's policy allows.

What a queue has by right and others borrowed comes back (`reclaimWithinCohort`), and within a queue the less important
make room (`withinClusterQueue`). Borrowers go first, then those of the lowest priority, then the youngest; no more than
it takes, and groups as a whole. Pods that are going already are waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api.objects import is_deleting
from dray.scheduling.front_ends.kueue import ClusterQueue
from dray.scheduling.model import Pod
from dray.scheduling.preemption import Unit, start_of
from dray.scheduling.quota_tree import NO_QUOTA, Asset
from dray.scheduling.state import State


class Reclaimer:
    def __init__(self, state: State) -> None:
        self._state = state
        self._queues = state.queues

    def find(
        self, pod: Pod, queue: ClusterQueue, wanted: dict[str, int]
    ) -> tuple[tuple[Pod, ...], dict[Asset, int]] | None:
        """The pods to remove and what is to be kept for this one meanwhile; None where that cannot be had."""
        if not pod.preempts or (queue.reclaims == "Never" and queue.preempts == "Never"):
            return None
        assets = self._assets(queue, wanted)
        if assets is None:
            return None
        removed: list[Unit] = []
        victims: list[Unit] = []
        try:
            for unit in self._going(queue):
                self._remove(unit, removed)
            for unit in self._candidates(pod, queue, assets):
                if self._fits(queue, assets):
                    break
                if not self._may_go(unit, pod, queue, assets):
                    continue
                self._remove(unit, removed)
                victims.append(unit)
            if not self._fits(queue, assets):
                return None
            for unit in tuple(victims):
                self._restore(unit, removed)
                if self._fits(queue, assets):
                    victims.remove(unit)
                else:
                    self._remove(unit, removed)
        finally:
            while removed:
                self._restore(removed[-1], removed)
        return tuple(each for unit in victims for each in unit), assets

    def _assets(self, queue: ClusterQueue, wanted: dict[str, int]) -> dict[Asset, int] | None:
        """What it would be charged to: the first flavor that could ever have so much."""
        found = {}
        for name, amount in wanted.items():
            flavors = (Asset(flavor, name) for flavor in self._queues.flavors(queue, name))
            asset = next((each for each in flavors if self._queues.tree.most(queue.name, each) >= amount), None)
            if asset is None:
                return None
            found[asset] = amount
        return found

    def _fits(self, queue: ClusterQueue, assets: dict[Asset, int]) -> bool:
        return all(self._queues.tree.available(queue.name, each) >= amount for each, amount in assets.items())

    def _going(self, queue: ClusterQueue) -> Iterator[Unit]:
        for name, each in self._queues.charged(self._queues.tree.root(queue.name)):
            if name and self._is_going(each):
                yield (each,)

    def _candidates(self, pod: Pod, queue: ClusterQueue, assets: dict[Asset, int]) -> list[Unit]:
        found: dict[str, tuple[bool, Unit]] = {}
        for name, each in self._queues.charged(self._queues.tree.root(queue.name)):
            if not self._is_going(each) and self._takes(each, assets):
                key, unit = self._unit(each)
                found.setdefault(key, (name == queue.name, unit))
        ranked = [(own, unit) for own, unit in found.values() if all(map(self._state.bound, unit))]
        ranked.sort(key=lambda each: start_of(each[1][0]), reverse=True)
        ranked.sort(key=lambda each: (each[0], max(one.priority for one in each[1])))
        return [unit for _, unit in ranked]

    def _is_going(self, pod: Pod) -> bool:
        return is_deleting(pod.document) or pod.uid in self._queues.leaving

    def _takes(self, pod: Pod, assets: dict[Asset, int]) -> bool:
        return not self._queues.assets_of(pod).isdisjoint(assets)

    def _unit(self, pod: Pod) -> tuple[str, Unit]:
        group = self._state.groups.of(pod)
        if group is None or not (group.whole or group.min_count > 1):
            return pod.uid, (pod,)
        return group.uid, tuple(self._state.groups.members(group.key).placed.values())

    def _may_go(self, unit: Sequence[Pod], pod: Pod, queue: ClusterQueue, assets: dict[Asset, int]) -> bool:
        """As things stand after the removals so far."""
        other = self._queues.queue_of(unit[0])
        highest = max(each.priority for each in unit)
        if other is None:
            return False
        if other is queue:
            newer = highest == pod.priority and min(map(start_of, unit)) > start_of(pod)
            lower = highest < pod.priority
            return {"LowerPriority": lower, "LowerOrNewerEqualPriority": lower or newer}.get(queue.preempts, False)
        if queue.reclaims == "Never" or (queue.reclaims == "LowerPriority" and highest >= pod.priority):
            return False
        tree = self._queues.tree
        by_right = all(
            tree.used(queue.name, each) + amount <= queue.quotas.get(each, NO_QUOTA).nominal
            for each, amount in assets.items()
        )
        return by_right and any(
            tree.used(other.name, each) > other.quotas.get(each, NO_QUOTA).nominal for each in assets
        )

    def _remove(self, unit: Unit, removed: list[Unit]) -> None:
        removed.append(unit)
        for each in unit:
            self._queues.set_aside(each)

    def _restore(self, unit: Unit, removed: list[Unit]) -> None:
        removed.remove(unit)
        for each in unit:
            self._queues.take_in(each)
