"""StaleGangs: groups of KAI of which fewer pods are left on nodes than have to start together.

Such a group is of no use, and keeps what others could have. After a grace period all of it goes; what is made anew then
starts together again. The group may say for how long that is, and with a negative time that it never happens.
Of Jobs only those go that say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api.objects import annotations_of, is_deleting, mapping
from dray.scheduling.core.state import State
from dray.scheduling.groups import jobs, kai
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kai.queue import seconds

_GRACE: Final = 60.0


class StaleGangs:
    def __init__(self, state: State) -> None:
        self._state = state
        self._since: dict[GroupKey, float] = {}
        """Groups that are short of pods, since when they were seen to be."""

    def overdue(self, now: float) -> list[tuple[Group, tuple[Pod, ...]]]:
        """With their pods, all of which are to go. To be asked every now and then."""
        short = {group.key: (group, pods) for group, pods in self._short()}
        self._since = {key: self._since.get(key, now) for key in short}
        return [
            (group, pods)
            for group, pods in short.values()
            if (grace := grace_of(group)) >= 0 and now >= self._since[group.key] + grace
        ]

    def _short(self) -> Iterator[tuple[Group, tuple[Pod, ...]]]:
        groups = self._state.groups
        told = (each for each in groups.known(jobs.API_GROUP) if kai.STALENESS in annotations_of(each.document))
        for group in (*groups.known(kai.API_GROUP), *told):
            if group.parent is None and not groups.is_started(group):
                pods = tuple(groups.placed(group))
                going = all(is_deleting(each.document) for each in pods)
                if not going and all(map(self._state.bound, pods)):
                    yield group, pods


def grace_of(group: Group) -> float:
    said = mapping(group.document.get("spec")).get("stalenessGracePeriod")
    found = seconds(said if said is not None else annotations_of(group.document).get(kai.STALENESS))
    return found if found is not None else _GRACE
