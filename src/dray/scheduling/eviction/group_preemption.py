"""GroupPreemptor: which pods to remove so that a whole group finds its places.

All that are of lower priority are taken away in thought, with the devices that only they use. If the group can then be
placed, as many as possible are let back, the most important first: those that are nowhere near it all, the others where
the pods of the group on their node still find a place beside them. Whoever wants to go as a whole does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from dray.api.objects import key_of
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import PreemptionTrial, Preemptor
from dray.scheduling.eviction.removals import removals_for
from dray.scheduling.model.actions import GroupPreemption, Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.making_room import making_room
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.plugins.dynamic_resources import all_devices
from dray.scheduling.quota.priority_removals import Unit
from dray.scheduling.quota.queue_policy import Removals


class GroupPreemptor:
    def __init__(self, state: State, preemptor: Preemptor, placer: GroupPlacer) -> None:
        self._state = state
        self._preemptor = preemptor
        self._placer = placer
        self.retry_at = inf
        """When more pods may be removed than the last time; infinite if never."""
        self.passed_over = False
        """Whether pods were passed over only because they are being bound."""

    def find(self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial) -> GroupPreemption | None:
        """Nothing is placed afterwards."""
        pods = [each.queued.pod for each in members]
        now = members[0].cycle.now
        rule = removals_for(self._state.queues, pods, now)
        there = (each for node in self._state.nodes.values() for each in node.pods.values())
        marked = making_room(there, pods[0], now)
        choices = self._preemptor.choices(rule, self._lower(rule), marked)
        self.retry_at = rule.retry_at
        demand = any(each.cycle.claims.demand for each in members)
        orphans = self._preemptor.all_orphans() if demand else []
        own = {key_of(claim) for each in members for claim in each.cycle.claims.allocated}
        for units in choices if choices != [[]] or marked or orphans else ():
            removal = self._preemptor.trial(own)
            removal.release(orphans)
            try:
                found = self._find(group, members, need, trial, removal, units, rule, marked)
            finally:
                trial.undo()
                removal.undo()
            if found is not None:
                return found
        return None

    def _find(
        self,
        group: Group,
        members: Sequence[Member],
        need: int,
        trial: GroupTrial,
        removal: PreemptionTrial,
        units: Sequence[Unit],
        rule: Removals,
        marked: Sequence[Pod],
    ) -> GroupPreemption | None:
        going = [*marked, *(each for unit in units for each in unit if self._preemptor.is_going(each))]
        removal.remove(going)
        if (going or not units) and self._placer.place(group, members, need, trial, anew=True) is None:
            return GroupPreemption((), places_of(members))
        gone = {each.uid for each in going}
        staying = rule.legal(unit for unit in units if not any(each.uid in gone for each in unit))
        removal.remove(each for unit in staying for each in unit)
        if self._placer.place(group, members, need, trial, anew=True) is not None:
            return None
        victims = self._reprieve(members, trial, removal, staying)
        return GroupPreemption(tuple(victims), places_of(members), rule.reclaims(victims))

    def _reprieve(
        self, members: Sequence[Member], trial: GroupTrial, removal: PreemptionTrial, units: Sequence[Unit]
    ) -> list[Pod]:
        """Lets back whom it can; gives the others."""
        victims: list[Pod] = []
        for unit in self._preemptor.in_order(units)[0]:
            # Devices that several nodes see may be theirs, or of the group's pods anywhere.
            spread = self._state.inventory.is_spread
            there = [
                each for each in members if each.placement is not None and (spread or _is_near(each, unit, removal))
            ]
            for each in unit:
                removal.restore(each)
            if not trial.renew(there):
                removal.remove(unit)
                trial.renew(there)
                victims += unit
        return victims

    def _lower(self, rule: Removals) -> Iterable[Pod]:
        for node in list(self._state.nodes.values()):
            for pod in list(node.pods.values()):
                if not (rule.may_go(pod) or self._preemptor.is_going(pod)):
                    continue
                if self._state.bound(pod):
                    yield pod
                else:
                    self.passed_over = True


def _is_near(member: Member, unit: Unit, removal: PreemptionTrial) -> bool:
    assert member.placement is not None
    return any(removal.node_of(each) is member.placement.node for each in unit)


def places_of(members: Iterable[Member]) -> dict[str, Preemption]:
    """By uid, where they are in thought."""
    return {
        each.queued.pod.uid: Preemption(each.placement.node.name, (), all_devices(each.placement.devices))
        for each in members
        if each.placement is not None
    }
