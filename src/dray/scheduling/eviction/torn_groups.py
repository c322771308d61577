"""TornGroups: groups that start together and would be left with too few pods by the evictions of a search.

The other pods of such a group are of no use: they are evicted too.
"""

from __future__ import annotations

from dray.scheduling.groups.groups import Groups
from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import Unit


class TornGroups:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._victims: dict[GroupKey, list[Pod]] = {}
        self._torn: set[GroupKey] = set()

    def add(self, victims: Unit) -> None:
        """Notes that the pods are evicted."""
        group = self._groups.disruption_unit(victims[0])
        if group is not None:
            known = self._victims.setdefault(group.key, [])
            known += victims
            if self._groups.is_started(group) and not self._groups.is_started_without(group, known):
                self._torn.add(group.key)

    def have(self, unit: Unit) -> bool:
        """Returns True if pods that could stay belong to such a group."""
        group = self._groups.disruption_unit(unit[0]) if self._torn else None
        return group is not None and group.key in self._torn
