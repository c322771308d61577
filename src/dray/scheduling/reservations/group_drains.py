"""GroupDrains: the place that drains, as a group meets it: that of another group, or one that is sought for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.scheduling.model.group import Group
from dray.scheduling.model.status import GroupDiagnosis
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.reservations.drain_search import DrainSearch

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler


class GroupDrains:
    def __init__(self, scheduler: Scheduler, placer: GroupPlacer) -> None:
        self._drains = scheduler.drains
        self._nominations = scheduler.nominations
        self._placer = placer
        self._search = DrainSearch(scheduler.state, scheduler.preemptor)

    def beside(
        self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial, answer: GroupDiagnosis
    ) -> GroupDiagnosis | None:
        """Once more with what is kept for another group."""
        if self._drains.draining(group) is not None:
            return answer
        with self._nominations.without_draining():
            if self._placer.place(group, members, need, trial) is not None:
                return answer
        if self._drains.lets_pass([each.queued.pod for each in members], members[0].cycle.now):
            return None
        trial.undo()
        return GroupDiagnosis(need, status=self._drains.status())

    def seek(self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial) -> None:
        """Seeks a place that will be free and keeps it for the group."""

        def place() -> bool:
            return self._placer.place(group, members, need, trial, anew=True) is None

        near, now = self._drains.near(group), members[0].cycle.now
        result = self._search.find(group, members, trial, place, near, now)
        queued = [each.queued for each in members]
        self._drains.keep(group, queued, result.found, now, awaits_binding=result.awaits_binding)
