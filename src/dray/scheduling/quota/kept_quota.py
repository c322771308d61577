"""KeptQuota: quota that groups keep for pods that are yet to come, or that replace others.

As long as a pod of such a group is on a node and was not asked to end, its queue is charged for all pods that the group
has in the end: for each that is missing as much as for one that is there. What is kept is for pods of the group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class _Kept:
    members: dict[str, KeptFor] = field(default_factory=dict)
    """The pods of the group on nodes, by uid."""
    charged: dict[Asset, int] = field(default_factory=dict)
    """The amounts that are charged for pods that are missing."""


class KeptQuota:
    def __init__(self, charge: Callable[[str, Amounts, int], None], ending: set[str], journal: Journal) -> None:
        """`ending` are pods by uid that were asked to end: these keep nothing."""
        self._charge = charge
        self._ending = ending
        self._journal = journal
        self._known: dict[tuple[str, GroupKey], _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, kept: KeptFor, uid: str) -> None:
        self._known.setdefault(kept[:2], _Kept()).members[uid] = kept
        self.settle(kept)

    def remove(self, kept: KeptFor, uid: str) -> None:
        self._known[kept[:2]].members.pop(uid, None)
        self.settle(kept)
        if not self._known[kept[:2]].members:
            del self._known[kept[:2]]

    def settle(self, kept: KeptFor) -> None:
        """Charges what is missing now, which may be less than before if pods came or were asked to end."""
        known = self._known[kept[:2]]
        self._charge(kept.queue, known.charged, -1)
        staying = [member for uid, member in known.members.items() if uid not in self._ending]
        missing = max(0, staying[-1].number - len(known.members)) if staying else 0
        known.charged = {asset: amount * missing for asset, amount in staying[-1].amounts.items()} if missing else {}
        self._charge(kept.queue, known.charged, 1)

    def free_for(self, queue: str, group: GroupKey | None) -> Changes:
        """Returns a trial, for a `with` statement, in which what the group keeps is free."""
        trial = self._journal.trial()
        known = self._known.get((queue, group)) if group is not None else None
        if known is not None:
            charged = known.charged
            self._charge(queue, charged, -1)
            trial.record(("kept quota", group), lambda: self._charge(queue, charged, 1))
        return trial
