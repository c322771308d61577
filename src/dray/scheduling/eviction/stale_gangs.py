"""StaleGangs: groups of which fewer pods are left on nodes than have to start together.

Such a group is of no use, and keeps what others could have. After a grace period, which the API of the group gives, all
its pods are evicted; what is created anew then starts together again.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.objects import is_deleting
from dray.scheduling.core.state import State
from dray.scheduling.groups.front_ends import APIS
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod


class StaleGangs:
    def __init__(self, state: State) -> None:
        self._state = state
        self._since: dict[GroupKey, float] = {}
        """Groups that are short of pods, since when they were seen to be."""

    def overdue(self, now: float) -> list[tuple[Group, tuple[Pod, ...]]]:
        """Returns the groups with all their pods, which are to be evicted. To be called every now and then."""
        short = {group.key: (group, pods) for group, pods in self._short()}
        self._since = {key: self._since.get(key, now) for key in short}
        return [
            (group, pods)
            for group, pods in short.values()
            if (grace := APIS[group.key.api].stale_after(group)) is not None and now >= self._since[group.key] + grace
        ]

    def _short(self) -> Iterator[tuple[Group, tuple[Pod, ...]]]:
        groups = self._state.groups
        for group in [each for each in groups.forest.all() if each.key.api in APIS]:
            if APIS[group.key.api].stale_after(group) is None:
                continue
            if group.parent is None and not groups.is_started(group):
                pods = tuple(groups.placed(group))
                going = all(is_deleting(each.document) for each in pods)
                if not going and all(pod.is_assigned for pod in pods):
                    yield group, pods
