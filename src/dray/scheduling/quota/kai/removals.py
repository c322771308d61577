"""KaiRemovals: who may be removed for pods of a KAI queue that find no place.

Within the queue those of lower priority. Of other queues, if this one stays within its share: where the ways to the
two queues part, the other side has more than it may have, or this one stays within its quota and the other is above its
own. That is asked before each removal, with what is left by then. And nobody ends up above its share and as far above
as those it takes from. Pods that are not preemptible stay, and so do young ones for as long as their queue says.
Pods beyond the minimum of an elastic group are removed one by one, before the minimum is, which goes as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from dray.api.times import seconds_of
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.fair_share import dominant_share
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.queue_policy import Ask, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kai.policy import KaiQueues

Unit = tuple[Pod, ...]


class _Part(NamedTuple):
    """Pods of a unit that go together: one beyond the minimum of its group, or all others."""

    pods: Unit
    unit: str
    """Tells parts of the same unit."""
    turn: tuple[object, ...]
    """Orders the parts of a queue."""


class KaiRemovals:
    def __init__(self, queues: KaiQueues, ask: Ask, *, not_before: float = 0.0) -> None:
        """Before a time that is given nobody is removed."""
        self._queues = queues
        self._tree = queues.tree
        self._ask = ask
        self._now = ask.now
        self._path = self._tree.path(ask.queue)
        self._wanted = {each: float(ask.wanted.get(each, 0)) for each in RESOURCES}
        self._is_entitled = self._path[0].within_share(self._wanted)
        self._is_early = ask.now < not_before
        self.retry_at = not_before if self._is_early else inf
        """The time when more may be evicted than now, if nothing else changes."""
        self._cores: dict[str, Unit] = {}
        """By uid of a pod beyond the minimum of its group, the other pods of the group."""
        self.hopeless = self._is_early or not queues.may_reclaim(ask)

    # One by one

    def may_go(self, pod: Pod) -> bool:
        """Whether the pod may be removed at all."""
        queue = self._queues.charged_to(pod)
        if self._is_early:
            return False
        # Whoever is in no queue stays: what it has is nobody's share.
        if not queue or not self._queues.is_preemptible(pod):
            return False
        if queue == self._ask.queue:
            lower = pod.priority < self._ask.pod.priority
            return lower and self._has_run(pod, self._tree.path(queue), "preempt_min_runtime")
        parted = self._tree.split(self._ask.queue, queue) if self._is_entitled else None
        if parted is None:
            return False
        above = self._tree.path(parted[1].name)
        return self._has_run(pod, above, "reclaim_min_runtime")

    def _has_run(self, pod: Pod, path: Sequence[ShareNode], member: str) -> bool:
        """Whether the pod has run for as long as the nearest queue with a minimum runtime wants."""
        least = next((value for node in path if (value := getattr(node.queue, member)) is not None), 0.0)
        started = seconds_of(start_of(pod)) if least else None
        if started is None or self._now >= started + least:
            return True
        self.retry_at = min(self.retry_at, started + least)
        return False

    # Together

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return any(self._queues.charged_to(each) != self._ask.queue for each in victims)

    def legal(self, units: Iterable[Unit]) -> list[Unit]:
        """Returns as many of the units as may be evicted together, the last to be evicted first.

        Of an elastic group each pod beyond its minimum is a unit by itself, and the minimum goes only after these.
        """
        lanes = self._lanes(units)
        left: dict[ShareNode, dict[str, float]] = {}
        heap = [(self._turn(queue, left), queue) for queue in lanes]
        heapify(heap)
        found: list[Unit] = []
        kept: set[str] = set()
        while heap:
            turn, queue = heappop(heap)
            if turn != (now := self._turn(queue, left)):
                # Pods of the queue went, or of one beside it: others may have more by now.
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
        """The units of each queue, those last that go first: the least important, those beyond a minimum, the youngest.

        Units that are in no queue are in one lane, and so are those of the queue that asks.
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
        highest = max(each.priority for each in unit)
        beyond = [each for each in unit if each.uid in surplus]
        core = tuple(each for each in unit if each.uid not in surplus)
        for pod in beyond:
            own = pod.priority, tuple(-ord(letter) for letter in start_of(pod))
            yield _Part((pod,), unit[0].uid, (highest, False, youngest, *own))
        if core:
            self._cores.update((each.uid, core) for each in beyond)
            yield _Part(core, unit[0].uid, (highest, True, youngest))

    def core_of(self, unit: Unit) -> Unit:
        """The minimum of its group that must stay where this pod beyond it stays; empty for other units."""
        return self._cores.get(unit[0].uid, ())

    def _turn(self, lane: str, left: dict[ShareNode, dict[str, float]]) -> tuple[object, ...]:
        """Orders queues by which of them loses a unit first: of other queues the least important, then the one that has
        most of what it may have, with what is left by then; this is compared from the top of the tree."""
        parted = self._tree.split(self._ask.queue, lane) if lane else None
        if parted is None:
            return (True,)
        path = self._tree.path(lane)
        below = reversed(path[: path.index(parted[1]) + 1])
        return False, *(each for node in below for each in self._rank(node, left))

    def _rank(self, node: ShareNode, left: dict[ShareNode, dict[str, float]]) -> tuple[object, ...]:
        share = dominant_share(_left(left, node), node.may_have(self._tree.capacity))
        return node.queue.priority, -share, node.name

    def _take(self, unit: Unit, left: dict[ShareNode, dict[str, float]]) -> bool:
        """Whether the unit may go too. `left` is what queues have left without those that go before it."""
        queue = self._queues.charged_to(unit[0])
        parted = self._tree.split(self._ask.queue, queue) if queue else None
        if parted is None:
            return True
        mine, other = parted
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
        """Whether the other has more than it may have, or more than its quota where this one asks for its own."""
        if any(left[each] > other.allocatable(each) for each in RESOURCES):
            return True
        return mine.within_quota(self._wanted) and any(left[each] > other.quota(each) for each in RESOURCES)

    def _is_level(
        self, mine: ShareNode, other: ShareNode, taken: dict[str, float], left: dict[ShareNode, dict[str, float]]
    ) -> bool:
        """Whether this one does not end up above its share, and as far above as the other."""
        for each in RESOURCES:
            if not (taken[each] or self._wanted[each]) or other.fair.get(each, 0.0) <= 0:
                continue
            own = _ratio(_left(left, mine)[each] + self._wanted[each], mine.fair.get(each, 0.0))
            if own > 1 and own >= _ratio(_left(left, other)[each], other.fair[each]):
                return False
        return True


def fewest(
    rule: KaiRemovals, queues: Iterable[str], trial: ReclaimTrial, has_room: Callable[[], bool]
) -> list[RunningUnit] | None:
    """Returns the units to evict so that the pods have quota and a place; None if that is impossible."""

    def fits() -> bool:
        return has_room() and trial.is_placeable()

    units = {each.pods: each for each in trial.units(queues) if all(map(rule.may_go, each.pods))}
    owners = {pod.uid: unit for unit in units.values() for pod in unit.pods}
    victims: list[RunningUnit] = []
    for pods in reversed(rule.legal(units)):
        if fits():
            break
        victims.append(replace(owners[pods[0].uid], pods=pods))
        trial.remove(victims[-1])
    if not fits():
        return None
    # The minimum of a group comes back before the pods beyond it, which are of no use without.
    for unit in sorted(victims[:-1], key=lambda each: bool(rule.core_of(each.pods))):
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
        left[node] = {each: node.staying(each) for each in RESOURCES}
    return left[node]


def _take(left: dict[str, float], amounts: dict[str, float], sign: int) -> None:
    for name, amount in amounts.items():
        left[name] -= sign * amount


def _ratio(amount: float, share: float) -> float:
    if share > 0:
        return amount / share
    return inf if amount > 0 else 0.0
