"""KaiRemovals: the pods that may be evicted for pods of a KAI queue that fit on no node.

Within the queue, pods of lower priority may be evicted. Pods of other queues may be evicted if the queue that asks
stays within its share. Two queues are compared by their ancestors right below their common ancestor: the other side
must have more than it may have, or this side stays within its quota and the other side is above its quota. Each
eviction is checked with the amounts that are left after the evictions before it. The asking side must not end up above
its share and at least as far above it as the other side. Pods that are not preemptible, and pods younger than the
minimum runtime of their queue, are not evicted. Pods beyond the minimum of an elastic group are evicted one by one,
before the minimum, which is evicted as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from dray.api.times import seconds_of
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.defaults import PriorityEvictions
from dray.scheduling.quota.fair_share import dominant_share
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.queue_policy import Ask, Asset, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kai.policy import KaiQueues

Unit = tuple[Pod, ...]


class _Part(NamedTuple):
    """Pods of a unit that are evicted together: one pod beyond the minimum of its group, or all others."""

    pods: Unit
    unit: str
    """A key that is equal for parts of the same unit."""
    turn: tuple[object, ...]
    """The sort key among the parts of a queue; the lowest is evicted first."""


class KaiRemovals:
    def __init__(self, queues: KaiQueues, ask: Ask, *, not_before: float = 0.0) -> None:
        """Before the time `not_before` no pod is evicted."""
        self._queues = queues
        self._tree = queues.tree
        self._ask = ask
        self._now = ask.now
        self._path = self._tree.path(ask.queue)
        self._wanted = {name: float(ask.wanted.get(name, 0)) for name in RESOURCES}
        self._is_entitled = self._path[0].within_share(self._wanted)
        self._is_early = ask.now < not_before
        self.retry_at = not_before if self._is_early else inf
        """The time when more pods may be evicted than now, if nothing else changes."""
        self._cores: dict[str, Unit] = {}
        """The pods of the minimum of a group, by uid of a pod beyond the minimum."""
        self.hopeless = self._is_early or not queues.may_reclaim(ask)

    # Single pods

    def is_evictable(self, pod: Pod) -> bool:
        """Whether the pod may be evicted, before shares are compared."""
        queue = self._queues.charged_to(pod)
        if self._is_early:
            return False
        # Pods in no queue are not evicted: what they hold is not part of any share.
        if not queue or not self._queues.is_preemptible(pod):
            return False
        if queue == self._ask.queue:
            lower = pod.priority < self._ask.pod.priority
            return lower and self._has_run(pod, self._tree.path(queue), "preempt_min_runtime")
        sides = self._tree.split(self._ask.queue, queue) if self._is_entitled else None
        if sides is None:
            return False
        above = self._tree.path(sides[1].name)
        return self._has_run(pod, above, "reclaim_min_runtime")

    def _has_run(self, pod: Pod, path: Sequence[ShareNode], member: str) -> bool:
        """Whether the pod has run for the minimum runtime of the nearest queue on the path that has one."""
        least = next((value for node in path if (value := getattr(node.queue, member)) is not None), 0.0)
        started = seconds_of(start_of(pod)) if least else None
        if started is None or self._now >= started + least:
            return True
        self.retry_at = min(self.retry_at, started + least)
        return False

    # Sets of units

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return any(self._queues.charged_to(victim) != self._ask.queue for victim in victims)

    def allowed(self, units: Iterable[Unit]) -> list[Unit]:
        """Returns as many of the units as may be evicted together, the last to be evicted first.

        Each pod beyond the minimum of an elastic group is a unit by itself; the minimum is evicted only after these.
        """
        lanes = self._lanes(units)
        left: dict[ShareNode, dict[str, float]] = {}
        heap = [(self._turn(queue, left), queue) for queue in lanes]
        heapify(heap)
        found: list[Unit] = []
        kept: set[str] = set()
        while heap:
            turn, queue = heappop(heap)
            if heap and turn != (now := self._turn(queue, left)):
                # Units of the queue, or of a queue beside it, were evicted: if several queues are left, others may come
                # first now.
                heappush(heap, (now, queue))
                continue
            part = lanes[queue].pop()
            if part.unit in kept or not self._take(part.pods, left):
                kept.add(part.unit)
            else:
                found.append(part.pods)
            if lanes[queue]:
                heappush(heap, (turn, queue))
        return found[::-1]

    def _lanes(self, units: Iterable[Unit]) -> dict[str, list[_Part]]:
        """Returns the units of each queue; the last of a list is evicted first. Units of low priority are evicted
        first, then pods beyond a minimum, then young units.

        Units in no queue and units of the queue that asks share the lane with an empty name.
        """
        lanes: dict[str, list[_Part]] = {}
        for unit in units:
            queue = self._queues.charged_to(unit[0])
            lane = queue if queue and self._tree.split(self._ask.queue, queue) is not None else ""
            lanes.setdefault(lane, []).extend(self._parts(unit))
        for parts in lanes.values():
            parts.sort(key=lambda part: part.turn, reverse=True)
        return lanes

    def _parts(self, unit: Unit) -> Iterator[_Part]:
        surplus = self._queues.surplus_of(unit)
        youngest = tuple(-ord(letter) for letter in min(map(start_of, unit)))
        highest = max(pod.priority for pod in unit)
        beyond = [pod for pod in unit if pod.uid in surplus]
        core = tuple(pod for pod in unit if pod.uid not in surplus)
        for pod in beyond:
            own = pod.priority, tuple(-ord(letter) for letter in start_of(pod))
            yield _Part((pod,), unit[0].uid, (highest, False, youngest, *own, pod.key))
        if core:
            self._cores.update((pod.uid, core) for pod in beyond)
            # Which of equals is evicted must not depend on the order in which the scheduler came to know them.
            yield _Part(core, unit[0].uid, (highest, True, youngest, min(pod.key for pod in core)))

    def core_of(self, unit: Unit) -> Unit:
        """Returns the pods of the minimum of the group, for a pod beyond the minimum, which is useless without them;
        empty for other units."""
        return self._cores.get(unit[0].uid, ())

    def _turn(self, lane: str, left: dict[ShareNode, dict[str, float]]) -> tuple[object, ...]:
        """Returns the sort key of a queue; the lowest has a unit evicted first. Other queues come first: those above
        their share, which others would reclaim at once, then those of low priority, then those with the largest
        dominant share of what is left. Ancestors are compared from the top."""
        sides = self._tree.split(self._ask.queue, lane) if lane else None
        if sides is None:
            return (True,)
        path = self._tree.path(lane)
        below = reversed(path[: path.index(sides[1]) + 1])
        return False, *[self._rank(node, left) for node in below]

    def _rank(self, node: ShareNode, left: dict[ShareNode, dict[str, float]]) -> tuple[object, ...]:
        amounts = _left(left, node)
        share = dominant_share(amounts, node.may_have(self._tree.capacity))
        within_share = not any(amounts[name] > node.allocatable(name) for name in RESOURCES)
        return within_share, node.queue.priority, -share, node.name

    def _take(self, unit: Unit, left: dict[ShareNode, dict[str, float]]) -> bool:
        """Takes the unit from `left` and returns True if the unit may be evicted too. `left` are the amounts of queues
        after the evictions before it."""
        queue = self._queues.charged_to(unit[0])
        sides = self._tree.split(self._ask.queue, queue) if queue else None
        if sides is None:
            return True
        mine, other = sides
        if not self._is_above(mine, other, _left(left, other)):
            return False
        amounts = self._amounts(unit)
        path = self._tree.path(queue)
        for node in path:
            _take(_left(left, node), amounts, 1)
        if self._is_level(mine, other, amounts, left):
            return True
        for node in path:
            _take(_left(left, node), amounts, -1)
        return False

    def _amounts(self, unit: Unit) -> dict[str, float]:
        found = dict.fromkeys(RESOURCES, 0.0)
        for pod in unit:
            if self._queues.charged_to(pod):
                for name, amount in self._queues.held_by(pod).items():
                    found[name] += amount
        return found

    def _is_above(self, mine: ShareNode, other: ShareNode, left: dict[str, float]) -> bool:
        """Whether the other side has more than it may have, or more than its quota while this side keeps to its own."""
        if any(left[name] > other.allocatable(name) for name in RESOURCES):
            return True
        return mine.within_quota(self._wanted) and any(left[name] > other.quota(name) for name in RESOURCES)

    def _is_level(
        self, mine: ShareNode, other: ShareNode, taken: dict[str, float], left: dict[ShareNode, dict[str, float]]
    ) -> bool:
        """Whether this side does not end up above its share and at least as far above it as the other side."""
        for name in RESOURCES:
            if not (taken[name] or self._wanted[name]) or other.fair.get(name, 0.0) <= 0:
                continue
            own = _ratio(_left(left, mine)[name] + self._wanted[name], mine.fair.get(name, 0.0))
            if own > 1 and own >= _ratio(_left(left, other)[name], other.fair[name]):
                return False
        return True


def fewest(
    rule: KaiRemovals, queues: Iterable[str], trial: ReclaimTrial, has_room: Callable[[], bool]
) -> list[RunningUnit] | None:
    """Returns the units to evict so that the pods have quota and fit on nodes; None if that is impossible."""

    def fits() -> bool:
        return has_room() and trial.is_placeable()

    units = {unit.pods: unit for unit in trial.units(queues) if all(map(rule.is_evictable, unit.pods))}
    owners = {pod.uid: unit for unit in units.values() for pod in unit.pods}
    victims: list[RunningUnit] = []
    for pods in reversed(rule.allowed(units)):
        if fits():
            break
        victims.append(replace(owners[pods[0].uid], pods=pods))
        trial.remove(victims[-1])
    if not fits():
        return None
    # The minimum of a group is restored before the pods beyond it, which are useless without the minimum.
    for unit in sorted(victims[:-1], key=lambda unit: bool(rule.core_of(unit.pods))):
        core = rule.core_of(unit.pods)
        if core and any(other.pods == core for other in victims):
            continue
        trial.restore(unit)
        if fits():
            victims.remove(unit)
        else:
            trial.remove(unit)
    return victims if fits() else None


def _left(left: dict[ShareNode, dict[str, float]], node: ShareNode) -> dict[str, float]:
    if node not in left:
        left[node] = {name: node.remaining(name) for name in RESOURCES}
    return left[node]


def _take(left: dict[str, float], amounts: dict[str, float], sign: int) -> None:
    for name, amount in amounts.items():
        left[name] -= sign * amount


def _ratio(amount: float, share: float) -> float:
    if share > 0:
        return amount / share
    return inf if amount > 0 else 0.0


class KaiEvictions(PriorityEvictions):
    """The pods that are evicted for pods of a KAI queue, because of its limit or to free nodes."""

    def __init__(self, queues: KaiQueues, ask: Ask) -> None:
        super().__init__(ask)
        self._queues = queues

    @property
    def wait_key(self) -> Hashable:
        return self._queues.is_preemptible(self._ask.pod), self._queues.not_before(self._ask.pod)

    def removals(self) -> KaiRemovals:
        self._queues.shares()
        return KaiRemovals(self._queues, self._ask, not_before=self._queues.not_before(self._ask.pod))

    def may_reclaim(self) -> bool:
        return self._queues.may_reclaim(self._ask)

    def reclaim(self, trial: ReclaimTrial) -> tuple[list[RunningUnit], dict[Asset, int]] | None:
        """Finds units to evict. Pods that are being evicted already do not count."""
        queues, ask = self._queues, self._ask
        with queues.without_evicted():
            related = queues.queue(ask.queue).related
            rule = self.removals()
            found = fewest(rule, related, trial, lambda: queues.short(ask) is None)
            trial.note_retry(rule.retry_at)
        return (found, queues.node_flavors.reserved(ask.pod, ask.wanted)) if found is not None else None

    def may_evict(self, queue: str, priority: int, *, lacks: bool) -> bool:
        if not lacks:
            return self._queues.gives_way(queue) and self.may_reclaim()
        return priority < self._ask.priority if queue == self._ask.queue else self._queues.gives_way(queue)
