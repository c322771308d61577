"""GroupPreemptor: the pods to evict so that a whole group fits.

All pods that may be evicted are evicted in a trial, with the devices that only they use. If the group can then be
placed, the most important pods are restored without whose places the group fits too. Then as many others as possible
are restored, the most important first: a pod stays where the pods of the group on its node still find a place beside
it. If more is freed than the group uses, it is also tried in other places, so that more pods stay. Groups that are
disrupted as a whole are evicted and restored as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from dray.allocation.devices import DeviceID
from dray.allocation.usage import device_of
from dray.api.objects import key_of
from dray.api.resource_claims import allocation_of, allocation_results
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.candidates import Candidates, removals_for, reprieve
from dray.scheduling.eviction.preemption import Preemptor, place_of
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.model.actions import NominatedPlace, Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.making_room import making_room
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import GroupDiagnosis
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.plugins.dynamic_resources import all_devices
from dray.scheduling.quota.defaults import Unit

# The maximum number of units for which the group is placed otherwise, so that they may stay.
_MOST_SPARED: Final = 4


class GroupPreemptor:
    def __init__(self, state: State, preemptor: Preemptor, placer: GroupPlacer) -> None:
        self._state = state
        self._preemptor = preemptor
        self._placer = placer

    def find(self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial) -> EvictionResult:
        """Returns which pods to evict, and the places of the group then. Nothing is placed afterwards."""
        pods, now = [member.queued.pod for member in members], members[0].cycle.now
        rule = removals_for(self._state, pods, now)
        candidates = self._preemptor.candidates(rule)
        running = (pod for node in self._state.nodes.values() for pod in node.pods.values())
        marked = making_room(running, pods[0], now)
        choices = candidates.choices(candidates.everywhere(), marked)
        orphans = self._preemptor.all_orphans() if any(member.cycle.claims.demand for member in members) else []
        own = {key_of(claim) for member in members for claim in member.cycle.claims.allocated}
        found = None
        for units in choices if choices != [[]] or marked or orphans else ():
            with self._preemptor.what_if(own) as removal:
                removal.release(orphans)
                try:
                    found = self._find(group, members, need, trial, removal, units, candidates, marked)
                finally:
                    trial.undo()
            if found is not None:
                break
        result = EvictionResult(found, candidates.awaits_binding, retry_at=rule.retry_at)
        return self._preemptor.vain.left_out(result, pods[0], now)

    def _find(
        self,
        group: Group,
        members: Sequence[Member],
        need: int,
        trial: GroupTrial,
        removal: Trial,
        units: Sequence[Unit],
        candidates: Candidates,
        marked: Sequence[Pod],
    ) -> Preemption | None:
        leaving = [*marked, *(pod for unit in units for pod in unit if candidates.is_leaving(pod))]
        removal.evict(leaving)
        if (leaving or not units) and self._placer.place(group, members, need, trial, anew=True) is None:
            return Preemption((), places_of(members))
        uids = {pod.uid for pod in leaving}
        evicted = candidates.rule.allowed(unit for unit in units if not any(pod.uid in uids for pod in unit))
        removal.evict(pod for unit in evicted for pod in unit)
        asked = partial(self._placer.place, group, members, need, trial, anew=True)
        if asked() is not None:
            return None
        if not candidates.rule.reclaims(pod for unit in evicted for pod in unit):
            evicted = self._least_important(asked, members, trial, removal, evicted)
        victims = self._reprieve(members, trial, removal, evicted)
        spared = self._unneeded(members, removal, evicted, victims)
        if spared:
            victims = self._spare(asked, members, trial, removal, spared, victims)
        return Preemption(tuple(victims), places_of(members), candidates.rule.reclaims(victims))

    def _least_important(
        self,
        asked: Callable[[], GroupDiagnosis | None],
        members: Sequence[Member],
        trial: GroupTrial,
        removal: Trial,
        evicted: list[Unit],
    ) -> list[Unit]:
        """Restores the most important units if the group fits without their places; returns the other units.

        Otherwise the group would be placed where it fits best, whichever pods are evicted there."""
        _, violating = self._preemptor.in_order(evicted)
        cost = {unit[0].uid: _cost(unit, violating) for unit in evicted}
        levels = sorted(set(cost.values()))
        least, most = 0, len(levels) - 1
        while least < most:
            level = (least + most) // 2
            cheap = [unit for unit in evicted if cost[unit[0].uid] <= levels[level]]
            others = [pod for unit in evicted if cost[unit[0].uid] > levels[level] for pod in unit]
            before = trial.placements(members)
            trial.undo()
            for pod in others:
                removal.restore(pod)
            if asked() is None:
                most, evicted = level, cheap
            else:
                least = level + 1
                removal.evict(others)
                trial.put_back(before)
        return evicted

    def _reprieve(
        self, members: Sequence[Member], trial: GroupTrial, removal: Trial, evicted: Sequence[Unit]
    ) -> list[Pod]:
        """Restores as many units as possible and returns the pods of the others."""

        def fits(unit: Unit) -> bool:
            nodes, is_anywhere = self._reached(unit, removal)
            return trial.renew(_concerned(trial.placements(members), nodes, is_anywhere=is_anywhere))

        return reprieve(self._state.groups, self._preemptor.in_order(evicted)[0], removal, fits)

    def _reached(self, unit: Unit, removal: Trial) -> tuple[set[str], bool]:
        """Returns the names of the nodes of the pods, and of nodes that see their devices; and whether any node may see
        one of the devices."""
        nodes = {removal.node_of(pod).name for pod in unit}
        viewers = [self._state.inventory.viewers(device) for pod in unit for device in self._devices(pod)]
        nodes.update(name for names in viewers for name in names or ())
        return nodes, None in viewers

    def _unneeded(
        self, members: Sequence[Member], removal: Trial, evicted: Sequence[Unit], victims: Sequence[Pod]
    ) -> list[Unit]:
        """Returns units among the victims that might stay if the group were placed otherwise, important ones first:
        the other victims free more than the group uses, and at least as much as the unit has."""
        uids = {pod.uid for pod in victims}
        units = [unit for unit in evicted if unit[0].uid in uids]
        if len(units) < 2:
            return []
        nodes = {node.name: node for pod in victims for node in [removal.node_of(pod)]}.values()
        free = Counter[str]()
        for node in nodes:
            free.update({name: most - node.requested.get(name, 0) for name, most in node.allocatable.items()})
        held = Counter(device for pod in victims for device in self._devices(pod))
        placed = [member.placement for member in members if member.placement is not None]
        taken = {device_of(device) for placement in placed for device in all_devices(placement.devices)}
        left = sum(device not in taken for device in held)
        groups = Counter(group.key for unit in units if (group := self._state.groups.disruption_unit(unit[0])))

        def might_stay(unit: Unit) -> bool:
            wanted = Counter[str]()
            for pod in unit:
                wanted.update(pod.requirements.requests)
            group = self._state.groups.disruption_unit(unit[0])
            return (
                all(amount <= free[name] for name, amount in wanted.items())
                and sum(len(list(self._devices(pod))) for pod in unit) <= left
                # The rest of a group that is torn is useless.
                and (group is None or groups[group.key] == 1)
            )

        return [unit for unit in self._preemptor.in_order(units)[0] if might_stay(unit)][:_MOST_SPARED]

    def _devices(self, pod: Pod) -> Iterator[DeviceID]:
        for claim in self._state.claims.used_by(pod.uid):
            yield from map(device_of, allocation_results(allocation_of(claim)))

    def _spare(
        self,
        asked: Callable[[], GroupDiagnosis | None],
        members: Sequence[Member],
        trial: GroupTrial,
        removal: Trial,
        units: Sequence[Unit],
        victims: Sequence[Pod],
    ) -> list[Pod]:
        """Restores those of the units without which the group fits, in other places; returns the other victims."""

        def fits(unit: Unit) -> bool:
            trial.undo()
            return asked() is None

        before = trial.placements(members)
        uids = {pod.uid for unit in units for pod in unit}
        needed = reprieve(self._state.groups, units, removal, fits)
        # The same places as after the last unit that was restored.
        if not needed or trial.placed() or fits(()):
            return [*(pod for pod in victims if pod.uid not in uids), *needed]
        # The search does not find the places beside pods that were restored, or its work budget is spent.
        removal.evict(victims)
        trial.put_back(before)
        return list(victims)


def _cost(unit: Unit, violating: Container[str]) -> tuple[bool, int]:
    """Returns whether evicting the unit violates a budget, and its highest priority."""
    return any(pod.uid in violating for pod in unit), max(pod.priority for pod in unit)


def _concerned(placed: Iterable[tuple[Member, Placement]], nodes: set[str], *, is_anywhere: bool) -> list[Member]:
    """Returns the members to place again after pods were restored on some nodes. If `is_anywhere`, any node may see
    devices of these pods, which concerns members with devices everywhere.

    Interchangeable members without devices fit beside the pods on their node if one of them does: the other members
    are on the node when it is placed again. Otherwise the work would grow with the square of the pods on a node.
    """
    found: list[Member] = []
    seen = set[tuple[Hashable, str]]()
    for member, placement in placed:
        name, has_devices = placement.node.name, bool(member.cycle.claims.demand)
        if name not in nodes and not (is_anywhere and has_devices):
            continue
        if has_devices or (member.kind, name) not in seen:
            seen.add((member.kind, name))
            found.append(member)
    return found


def places_of(members: Iterable[Member]) -> dict[str, NominatedPlace]:
    """Returns the places that the members have on trial, by uid."""
    return {member.queued.pod.uid: place_of(member.placement) for member in members if member.placement is not None}
