"""KaiRemovals: who may be removed for pods of a KAI queue that find no place.

Within the queue those of lower priority. Of other queues, if this one stays within its share: where the ways to the
two queues part, the other side has more than it may have, or this one stays within its quota and the other is above its
own. That is asked before each removal, with what is left by then. And nobody ends up above its share and as far above
as those it takes from. Pods that are not preemptible stay, and so do young ones for as long as their queue says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from dray.api.times import seconds_of
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.queue_policy import Ask, ReclaimTrial, RunningUnit

if TYPE_CHECKING:
    from dray.scheduling.quota.kai.policy import KaiQueues

Unit = tuple[Pod, ...]


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
        """When more may be removed than now, if nothing else changes."""
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
        """For as long as the nearest queue that says something wants."""
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
        """As many of the units as may be removed together, those first that are the last to go."""
        left: dict[ShareNode, dict[str, float]] = {}
        found = [unit for unit in sorted(units, key=self._turn) if self._take(unit, left)]
        return found[::-1]

    def _turn(self, unit: Unit) -> tuple[object, ...]:
        """Who goes first: of other queues the least important, those that are the furthest above what they may have."""
        queue = self._queues.charged_to(unit[0])
        parted = self._tree.split(self._ask.queue, queue) if queue else None
        youngest = tuple(-ord(letter) for letter in min(map(start_of, unit)))
        highest = max(each.priority for each in unit)
        if parted is None:
            return True, 0, 0.0, "", highest, youngest
        share = parted[1].share({}, self._tree.capacity)
        return False, parted[1].queue.priority, -share, queue, highest, youngest

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
    """Who goes so that queues have room for pods, and these a place; None where that cannot be."""

    def fits() -> bool:
        return has_room() and trial.is_placeable()

    units = {each.pods: each for each in trial.units(queues) if all(map(rule.may_go, each.pods))}
    victims: list[RunningUnit] = []
    for pods in reversed(rule.legal(units)):
        if fits():
            break
        trial.remove(units[pods])
        victims.append(units[pods])
    if not fits():
        return None
    for unit in tuple(victims[:-1]):
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
