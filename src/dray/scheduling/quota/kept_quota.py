"""KeptQuota: quota that groups keep for pods that are yet to come, or that replace others.

As long as a pod of such a group is on a node and was not asked to end, its queue is charged for all pods that the group
has in the end: for each that is missing as much as for one that is there. What is kept is for pods of the group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.journal import Changes, Journal
from dray.scheduling.quota.queue_policy import Asset

Amounts = Mapping[Asset, int]


class KeptFor(NamedTuple):
    """The part that a pod on a node has in the quota that its group keeps."""

    queue: str
    group: GroupKey
    number: int
    """How many pods the group has in the end."""
    amounts: Amounts
    """The amounts that the pod holds by itself."""

    @property
    def key(self) -> tuple[str, GroupKey]:
        return self.queue, self.group


class KeptQuota:
    def __init__(self, charge: Callable[[str, Amounts, int], None], ending: set[str], journal: Journal) -> None:
        """`ending` are pods by uid that were asked to end: these keep nothing."""
        self._charge = charge
        self._ending = ending
        self._journal = journal
        self._members: dict[tuple[str, GroupKey], dict[str, KeptFor]] = {}
        """The pods on nodes of each group that keeps quota, by uid."""
        self._charged: dict[tuple[str, GroupKey], Amounts] = {}
        """The amounts that are charged for pods that are missing."""

    def __bool__(self) -> bool:
        return bool(self._members)

    def add(self, kept: KeptFor, uid: str) -> None:
        self._members.setdefault(kept.key, {})[uid] = kept
        self.settle(kept)

    def remove(self, kept: KeptFor, uid: str) -> None:
        self._members[kept.key].pop(uid, None)
        self.settle(kept)
        if not self._members[kept.key]:
            del self._members[kept.key], self._charged[kept.key]

    def settle(self, kept: KeptFor) -> None:
        """Charges what is missing now, which may be less than before if pods came or were asked to end."""
        self._charge(kept.queue, self._charged.get(kept.key, {}), -1)
        members = self._members[kept.key]
        staying = [member for uid, member in members.items() if uid not in self._ending]
        missing = max(0, staying[-1].number - len(members)) if staying else 0
        charged = {asset: amount * missing for asset, amount in staying[-1].amounts.items()} if missing else {}
        self._charged[kept.key] = charged
        self._charge(kept.queue, charged, 1)

    def free_for(self, queue: str, group: GroupKey | None) -> Changes:
        """Returns a trial, for a `with` statement, in which what the group keeps is free."""
        trial = self._journal.trial()
        charged = self._charged.get((queue, group)) if group is not None else None
        if charged:
            self._charge(queue, charged, -1)
            trial.record(("kept quota", group), lambda: self._charge(queue, charged, 1))
        return trial
