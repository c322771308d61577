"""StaleGangs: groups of which fewer pods are left on nodes than have to start together.

Such a group is useless, and holds resources that others could use. After a grace period, which the API of the group
defines, all its pods are evicted. The pods that are created instead start together again.
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
        """The time when each group was first seen with too few pods."""

    def overdue(self, now: float) -> list[tuple[Group, tuple[Pod, ...]]]:
        """Returns the groups whose grace period is over, with all their pods, which are to be evicted. The caller does
        this at intervals."""
        short = {group.key: (group, pods) for group, pods in self._short()}
        self._since = {key: self._since.get(key, now) for key in short}
        return [
            (group, pods)
            for group, pods in short.values()
            if (grace := APIS[group.key.api].stale_after(group)) is not None and now >= self._since[group.key] + grace
        ]

    def _short(self) -> Iterator[tuple[Group, tuple[Pod, ...]]]:
        groups = self._state.groups
        for group in [group for group in groups.forest.all() if group.key.api in APIS]:
            if APIS[group.key.api].stale_after(group) is None:
                continue
            if group.parent is None and not groups.is_started(group):
                pods = tuple(groups.placed(group))
                is_ending = all(is_deleting(pod.document) for pod in pods)
                if not is_ending and all(pod.is_assigned for pod in pods):
                    yield group, pods
