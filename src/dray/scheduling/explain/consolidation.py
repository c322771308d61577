"""Consolidation: the running pods to move so that a waiting group or pod fits, if free devices are scattered.

Areas are tried one after the other: the domains of a group with a required topology, all nodes for other groups, and
each node by itself for a pod. In an area, a trial removes pods that can be moved, node by node, the node with the
fewest pods first, until the waiting pods fit. Then it restores as many of them as possible. The other pods must all fit
on other nodes. A pod that does not is kept on its node, and the search is repeated without it. The area with the fewest
pods to move is chosen. A pod can be moved if its priority is not higher, a controller creates it again, and its
disruption budgets allow that; groups that are evicted as a whole are moved as a whole. The numbers of areas and of
units of work are limited.
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
from dray.scheduling.quota.defaults import Unit
from dray.scheduling.reservations.backfill import earliest
from dray.scheduling.scheduler import Scheduler
from dray.scheduling.waiting.queued_pods import QueuedPod

_MOST_AREAS: Final = 64
# The maximum number of pods of an area that are found to fit on no other node, one by one.
_MOST_KEPT: Final = 8
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
    """A waiting group, or a waiting pod that is placed by itself."""

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
    """The pods to move; empty if the waiting pods fit without."""
    places: tuple[Place, ...] = ()
    problem: str = ""
    """Why no moves help; empty if moves were found or are not needed."""


class Consolidator:
    def __init__(self, scheduler: Scheduler, now: float) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._now = now

    def waiting(self) -> list[Waiting]:
        """Returns the waiting groups and pods that can be tried, by priority, then by age."""
        found: dict[GroupKey, Waiting] = {}
        for queued in sorted(self._scheduler.queue.all(), key=lambda entry: (-entry.pod.priority, entry.pod.created)):
            if self._scheduler.framework.pre_enqueue(queued.pod) is None:
                waiting = self._waiting_with(queued)
                found.setdefault(waiting.group.key, waiting)
        return list(found.values())

    def _waiting_with(self, first: QueuedPod) -> Waiting:
        found = self._scheduler.attempts.waiting_with(first)
        if found is not None:
            group, members = found
            queued = {member.pod.uid: member for member in members}
            pods = self._state.groups.next_to_place(group, (member.pod for member in members))
            need = self._state.groups.need(group)
            return Waiting(group.key.kind, group, tuple(queued[pod.uid] for pod in pods), need)
        return Waiting(POD, single(first.pod.key, first.pod.uid, first.pod.document), (first,), 1)

    def find(self, waiting: Waiting) -> Consolidation:
        work, scheduler = Work(_WORK), self._scheduler
        found = []
        for queued in waiting.queued:
            cycle = scheduler.algorithm.begin(queued.pod, self._now, work)
            if (status := scheduler.framework.prefilter(cycle)) is not None:
                return Consolidation(waiting, problem=status_text(status))
            found.append((queued, cycle))
        with scheduler.placer.trial(found, work) as (trial, members):
            try:
                return self._find(waiting, members, trial, work)
            except WorkExhausted:
                return Consolidation(waiting, problem=f"the search was not finished after {_WORK:,} units of work")
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
        """Returns the areas as lists of units by node; areas with the fewest pods that can be moved come first."""
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
            if unit and all(member.priority <= priority and is_movable(member, self._state) for member in unit):
                found[key] = unit
        violating = self._scheduler.preemptor.in_order(found.values())[1]
        return [unit for unit in found.values() if not any(pod.uid in violating for pod in unit)]

    def _unit(self, pod: Pod) -> tuple[str, Unit]:
        """Returns the pods that are moved together with the pod, and a key for them; no pods if they cannot move."""
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
        # Pods of a group with a topology cannot be placed one by one.
        is_bound = any(part.topology or part.preemptible is False for part in (together, *groups.leaves(together)))
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
        """Returns the pods of the area to move; None if there are none, or not fewer than `most`.

        A pod that fits on no other node is kept on its node, and the search is repeated without it.
        """
        kept: set[str] = set()
        for _ in range(_MOST_KEPT):
            left = [[unit for unit in units if not any(pod.uid in kept for pod in unit)] for units in area]
            found = self._try(left, most)
            if not isinstance(found, Pod):
                return found
            kept.add(found.uid)
        return None

    def _try(self, area: Sequence[Sequence[Unit]], most: int | None) -> Consolidation | Pod | None:
        """Returns the pods to move; a Pod if that pod fits on no other node; None if no moves help."""
        scheduler = self._scheduler
        own = {key_of(claim) for member in self._members for claim in member.cycle.claims.allocated}
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
        with relocation.placed(self._work) as targets:
            if not isinstance(targets, Pod):
                return Consolidation(self._waiting, _moves(pods, sources, targets), _places(self._members))
        self._trial.undo()
        # The waiting pods may have taken the only other places: the moved pods are placed first.
        with relocation.placed(self._work, elsewhere=True) as others:
            if isinstance(others, Pod):
                return others
            try:
                if self.fits():
                    return Consolidation(self._waiting, _moves(pods, sources, others), _places(self._members))
            finally:
                self._trial.undo()
        return targets

    def _node_of(self, pod: Pod) -> Node | None:
        return self._scheduler.state.node_of(pod)

    def _fewest(self, relocation: Relocation, area: Sequence[Sequence[Unit]]) -> list[Unit] | None:
        """Removes as few units as possible so that the waiting pods fit, and places these; None if they do not fit."""
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
        return self._restore_unneeded(relocation, [unit for units in steps[:number] for unit in units])

    def _restore_unneeded(self, relocation: Relocation, units: Sequence[Unit]) -> list[Unit]:
        """Restores units that need not be moved, large and important units first; returns the others."""
        moved = []
        for unit in sorted(self._scheduler.preemptor.in_order(units)[0], key=len, reverse=True):
            self._trial.undo()
            relocation.restore(unit)
            if not self.fits():
                relocation.remove([unit])
                moved.append(unit)
        self.fits()
        return moved


def _size(units: Iterable[Unit]) -> int:
    return sum(map(len, units))


def _each_once(area: Iterable[Iterable[Unit]]) -> list[list[Unit]]:
    """Lists units that are on several nodes only with the first of these nodes."""
    seen: set[str] = set()
    steps = []
    for units in area:
        steps.append([unit for unit in units if unit[0].uid not in seen])
        seen.update(unit[0].uid for unit in units)
    return steps


def _moves(pods: Iterable[Pod], sources: Mapping[str, str], targets: Mapping[str, str]) -> tuple[Move, ...]:
    return tuple(Move(pod, sources[pod.uid], targets[pod.uid]) for pod in pods)


def _places(members: Iterable[Member]) -> tuple[Place, ...]:
    return tuple(
        Place(member.queued.pod, member.placement.node.name, tuple(devices_of(member.placement)))
        for member in members
        if member.placement is not None
    )
