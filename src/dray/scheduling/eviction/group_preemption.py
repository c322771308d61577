"""GroupPreemptor: the pods to evict so that a whole group fits.

All pods that may be evicted are evicted in a trial, with the devices that only they use. If the group can then be
placed, as many as possible are restored, the most important first: a pod stays where the pods of the group on its node
still find a place beside it. Groups that are disrupted as a whole are evicted and restored as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.objects import key_of
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.candidates import Candidates, removals_for, reprieve
from dray.scheduling.eviction.preemption import Preemptor, place_of
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.model.actions import NominatedPlace, Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.making_room import making_room
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.quota.priority_removals import Unit


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
        if self._placer.place(group, members, need, trial, anew=True) is not None:
            return None
        victims = self._reprieve(members, trial, removal, evicted)
        return Preemption(tuple(victims), places_of(members), candidates.rule.reclaims(victims))

    def _reprieve(
        self, members: Sequence[Member], trial: GroupTrial, removal: Trial, evicted: Sequence[Unit]
    ) -> list[Pod]:
        """Restores as many units as possible and returns the pods of the others."""
        # Devices that several nodes see may belong to a unit, or to pods of the group anywhere.
        spread = self._state.inventory.is_spread

        def fits(unit: Unit) -> bool:
            placed = [member for member in members if member.placement is not None]
            return trial.renew([member for member in placed if spread or _is_near(member, unit, removal)])

        return reprieve(self._state.groups, self._preemptor.in_order(evicted)[0], removal, fits)


def _is_near(member: Member, unit: Unit, removal: Trial) -> bool:
    assert member.placement is not None
    return any(removal.node_of(pod) is member.placement.node for pod in unit)


def places_of(members: Iterable[Member]) -> dict[str, NominatedPlace]:
    """Returns the places that the members have on trial, by uid."""
    return {member.queued.pod.uid: place_of(member.placement) for member in members if member.placement is not None}
