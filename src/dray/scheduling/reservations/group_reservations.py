"""GroupReservations: attempts of groups may use places that are reserved for others, or reserve a place themselves."""

from __future__ import annotations

from collections.abc import Sequence

from dray.scheduling.core.nominations import Nominations
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model.group import Group
from dray.scheduling.model.status import GroupDiagnosis
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.reservations.place_search import PlaceSearch, PlaceSearchResult
from dray.scheduling.reservations.reserved_places import ReservedPlaces


class GroupReservations:
    def __init__(
        self,
        state: State,
        reservations: ReservedPlaces,
        nominations: Nominations,
        preemptor: Preemptor,
        placer: GroupPlacer,
    ) -> None:
        self._reservations = reservations
        self._nominations = nominations
        self._placer = placer
        self._search = PlaceSearch(state, preemptor)

    def beside(
        self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial, answer: GroupDiagnosis
    ) -> GroupDiagnosis | None:
        """Tries to place the group where room is reserved for another group, which it may use if it ends in time."""
        if self._reservations.period(group.key) is not None:
            return answer
        with self._nominations.without_reservations():
            if self._placer.place(group, members, need, trial) is not None:
                return answer
        if self._reservations.lets_pass([member.queued.pod for member in members], members[0].cycle.now):
            return None
        trial.undo()
        return GroupDiagnosis(need, status=self._reservations.status())

    def search(self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial) -> PlaceSearchResult:
        """Searches for a place that will be free. Nothing is placed afterwards."""

        def place() -> bool:
            return self._placer.place(group, members, need, trial, anew=True) is None

        near, now = self._reservations.near(group.key), members[0].cycle.now
        return self._search.find(group, members, trial, place, near, now)
