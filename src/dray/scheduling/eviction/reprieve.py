"""Reprieve: restores as many as possible of the units that were evicted in a trial.

If a group that starts together would be left with too few pods, its other pods are evicted too, since they are useless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dray.scheduling.core.what_if import Trial
from dray.scheduling.groups.groups import Groups
from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.priority_removals import Unit


def reprieve(groups: Groups, units: Iterable[Unit], trial: Trial, fits: Callable[[Unit], bool]) -> list[Pod]:
    """Restores units in their order; returns the pods of the units that have to be evicted.

    `fits` tells whether the pods that ask still fit after a unit was restored.
    """
    victims: list[Pod] = []
    restored: list[Unit] = []
    torn = _TornGroups(groups)
    for unit in units:
        if torn.have(unit):
            victims += unit
            continue
        for pod in unit:
            trial.restore(pod)
        if fits(unit):
            restored.append(unit)
            continue
        trial.evict(unit)
        torn.add(unit)
        victims += unit
    for unit in filter(torn.have, restored):
        trial.evict(unit)
        victims += unit
    return victims


class _TornGroups:
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
        """Whether the unit belongs to a group that has too few pods after the evictions."""
        group = self._groups.disruption_unit(unit[0]) if self._torn else None
        return group is not None and group.key in self._torn
