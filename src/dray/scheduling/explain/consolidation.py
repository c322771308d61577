"""Consolidation: which running pods to move so that a waiting group or pod fits where free devices are scattered.

Areas are tried one after the other: for a group with a required topology its domains, for another group all nodes, for
a pod each node by itself. In an area pods that can be moved are taken away in thought, node by node, the node with the
fewest first, until the waiting one fits; then as many as possible are let back. The others must all find another place
beside it; one that finds none stays, and the search goes on without it. Of the areas the one with the fewest pods to
move is taken. Pods can be moved whose priority is not higher, that somebody makes again, and whose disruption budgets
allow it; groups that are removed as a whole go as a whole. The search is bounded in areas and in counted work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation import Work, WorkExhausted
from dray.api.objects import key_of
from dray.scheduling.eviction.relocation import Relocation, devices_of, is_movable
from dray.scheduling.model.group import POD, Group, GroupKey, single
from dray.scheduling.model.messages import status_text
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.quota.priority_removals import Unit
from dray.scheduling.reservations.backfill import earliest
from dray.scheduling.scheduler import Scheduler
from dray.scheduling.waiting.queued_pods import QueuedPod

_MOST_AREAS: Final = 64
# Pods of an area without another place that are found out one by one.
_MOST_STAYING: Final = 8
_WORK: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class Move:
    pod: Pod
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Place:
    pod: Pod
    node: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A group, or a pod that is placed by itself."""

    kind: str
    group: Group
    queued: tuple[QueuedPod, ...]
    need: int

    @property
    def title(self) -> str:
        return f"{self.kind} {self.group.key.title}"


@dataclass(frozen=True, slots=True)
class Consolidation:
    waiting: Waiting
    moves: tuple[Move, ...] = ()
    """None where it fits as things are."""
    places: tuple[Place, ...] = ()
    problem: str = ""
    """Why nothing that could be moved helps it."""


class Consolidator:
    def __init__(self, scheduler: Scheduler, now: float) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._now = now

    def waiting(self) -> list[Waiting]:
        """The most urgent first, then those that have waited longest."""
        found: dict[GroupKey, Waiting] = {}
        for each in sorted(self._scheduler.queue.all(), key=lambda each: (-each.pod.priority, each.pod.created)):
            if self._scheduler.framework.pre_enqueue(each.pod) is None:
                made = self._waiting_with(each)
                found.setdefault(made.group.key, made)
        return list(found.values())

    def _waiting_with(self, first: QueuedPod) -> Waiting:
        found = self._scheduler.attempts.waiting_with(first)
        if found is not None:
            group, pods = found
            queued = {each.pod.uid: each for each in pods}
            least = self._state.groups.next_to_place(group, (each.pod for each in pods))
            need = self._state.groups.need(group)
            return Waiting(group.key.kind, group, tuple(queued[each.uid] for each in least), need)
        return Waiting(POD, single(first.pod.key, first.pod.uid, first.pod.document), (first,), 1)

    def find(self, waiting: Waiting) -> Consolidation:
        work, scheduler = Work(_WORK), self._scheduler
        found = []
        for each in waiting.queued:
            cycle = scheduler.algorithm.begin(each.pod, self._now, work)
            if (status := scheduler.framework.prefilter(cycle)) is not None:
                return Consolidation(waiting, problem=status_text(status))
            found.append((each, cycle))
        with scheduler.placer.trial(found, work) as (trial, members):
            try:
                return self._find(waiting, members, trial, work)
            except WorkExhausted:
                return Consolidation(waiting, problem=f"the search came to no end in {_WORK:,} units of work")
            finally:
                trial.undo()

    def _find(self, waiting: Waiting, members: Sequence[Member], trial: GroupTrial, work: Work) -> Consolidation:
        search = _Search(self._scheduler, waiting, members, trial, work, self._now)
        if search.fits():
            return Consolidation(waiting, places=_places(members))
        best: Consolidation | None = None
        for area in self._areas(waiting):
            found = search.try_area(area, len(best.moves) if best is not None else None)
            if found is not None:
                best = found
                if len(best.moves) == 1:
                    break
        return best or Consolidation(waiting, problem="no pods that could be moved to other places make room for it")

    def _areas(self, waiting: Waiting) -> list[list[list[Unit]]]:
        """Each as the units of its nodes; those with the fewest pods to move first."""
        priority = waiting.queued[0].pod.priority
        by_node = {node.name: self._movable(node, priority) for node in self._state}
        areas: dict[tuple[str, ...], list[list[Unit]]] = {}
        for node in self._state:
            units = by_node[node.name]
            if units:
                areas.setdefault(self._area(waiting, node), []).append(units)
        for units_of_nodes in areas.values():
            units_of_nodes.sort(key=_size)
        return sorted(areas.values(), key=lambda area: sum(map(_size, area)))[:_MOST_AREAS]

    def _area(self, waiting: Waiting, node: Node) -> tuple[str, ...]:
        if waiting.kind == POD:
            return (node.name,)
        return tuple(node.labels.get(label, "") for label in waiting.group.topology.required)

    def _movable(self, node: Node, priority: int) -> list[Unit]:
        found: dict[str, Unit] = {}
        for pod in node.pods.values():
            key, unit = self._unit(pod)
            if unit and all(each.priority <= priority and is_movable(each, self._state) for each in unit):
                found[key] = unit
        violating = self._scheduler.preemptor.in_order(found.values())[1]
        return [unit for unit in found.values() if not any(each.uid in violating for each in unit)]

    def _unit(self, pod: Pod) -> tuple[str, Unit]:
        """The pods that go with it, nobody where it must stay."""
        groups = self._state.groups
        group = groups.of(pod)
        if group is None:
            return pod.uid, (pod,)
        root = groups.root(group)
        together = groups.disruption_unit(pod)
        if together is None and (group.min_count > 1 or group.parent is not None):
            together = root if isinstance(root, Group) else group
        if together is None:
            return pod.uid, (pod,)
        # Groups that must stay in one domain cannot be judged pod by pod.
        is_bound = any(each.topology or each.preemptible is False for each in (together, *groups.leaves(together)))
        return together.uid, () if is_bound else tuple(groups.placed(together))


class _Search:
    def __init__(
        self,
        scheduler: Scheduler,
        waiting: Waiting,
        members: Sequence[Member],
        trial: GroupTrial,
        work: Work,
        now: float,
    ) -> None:
        self._scheduler = scheduler
        self._waiting = waiting
        self._members = members
        self._trial = trial
        self._work = work
        self._now = now

    def fits(self) -> bool:
        self._trial.undo()
        placer, waiting = self._scheduler.placer, self._waiting
        return placer.place(waiting.group, self._members, waiting.need, self._trial, anew=True) is None

    def try_area(self, area: Sequence[Sequence[Unit]], most: int | None) -> Consolidation | None:
        """The pods of the area to move, if they are fewer than `most`.

        Where one of them has no other place, it stays, and the others are tried without it.
        """
        staying: set[str] = set()
        for _ in range(_MOST_STAYING):
            left = [[unit for unit in units if not any(each.uid in staying for each in unit)] for units in area]
            found = self._try(left, most)
            if not isinstance(found, Pod):
                return found
            staying.add(found.uid)
        return None

    def _try(self, area: Sequence[Sequence[Unit]], most: int | None) -> Consolidation | Pod | None:
        """The pods to move; the first of them that has no other place if there is one."""
        scheduler = self._scheduler
        own = {key_of(claim) for each in self._members for claim in each.cycle.claims.allocated}
        with scheduler.preemptor.what_if(own) as removal:
            relocation = Relocation(scheduler.state, scheduler.framework, scheduler.algorithm, removal, self._now)
            try:
                return self._moved(relocation, area, most)
            finally:
                self._trial.undo()

    def _moved(
        self, relocation: Relocation, area: Sequence[Sequence[Unit]], most: int | None
    ) -> Consolidation | Pod | None:
        units = self._fewest(relocation, area)
        if units is None or (most is not None and sum(map(len, units)) >= most):
            return None
        pods = [pod for unit in units for pod in unit]
        if self._scheduler.preemptor.budgets.split(pods)[0]:
            return None
        sources = {pod.uid: node.name for pod in pods if (node := self._node_of(pod))}
        targets = relocation.place(self._work)
        if isinstance(targets, Pod):
            return targets
        return Consolidation(self._waiting, _moves(pods, sources, targets), _places(self._members))

    def _node_of(self, pod: Pod) -> Node | None:
        return self._scheduler.state.node_of(pod)

    def _fewest(self, relocation: Relocation, area: Sequence[Sequence[Unit]]) -> list[Unit] | None:
        """Removed in thought, with the waiting one in their place; None where all of the area do not make room."""
        removed, steps = 0, _each_once(area)

        def fits(number: int) -> bool:
            nonlocal removed
            self._trial.undo()
            for units in steps[removed:number]:
                relocation.remove(units)
            for units in steps[number:removed]:
                for unit in units:
                    relocation.restore(unit)
            removed = number
            return self.fits()

        number = earliest(len(steps), fits)
        if number is None or not fits(number):
            return None
        return self._let_back(relocation, [unit for units in steps[:number] for unit in units])

    def _let_back(self, relocation: Relocation, units: Sequence[Unit]) -> list[Unit]:
        """Those that need not go: the largest and most important first."""
        going = []
        for unit in sorted(self._scheduler.preemptor.in_order(units)[0], key=len, reverse=True):
            self._trial.undo()
            relocation.restore(unit)
            if not self.fits():
                relocation.remove([unit])
                going.append(unit)
        self.fits()
        return going


def _size(units: Iterable[Unit]) -> int:
    return sum(map(len, units))


def _each_once(area: Iterable[Iterable[Unit]]) -> list[list[Unit]]:
    """Units on several nodes go with the first of these."""
    seen: set[str] = set()
    steps = []
    for units in area:
        steps.append([unit for unit in units if unit[0].uid not in seen])
        seen.update(unit[0].uid for unit in units)
    return steps


def _moves(pods: Iterable[Pod], sources: Mapping[str, str], targets: Mapping[str, str]) -> tuple[Move, ...]:
    return tuple(Move(each, sources[each.uid], targets[each.uid]) for each in pods)


def _places(members: Iterable[Member]) -> tuple[Place, ...]:
    return tuple(
        Place(each.queued.pod, each.placement.node.name, tuple(devices_of(each.placement)))
        for each in members
        if each.placement is not None
    )
