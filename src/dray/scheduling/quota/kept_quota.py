"""KeptQuota: quota that groups keep for pods that are not created yet, or that replace other pods.

As long as a pod of such a group is on a node and is not ending, its queue is charged for all pods that the group will
have. Each missing pod is charged like the oldest of these pods. Only pods of the group may use the kept quota.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.journal import Changes, Journal
from dray.scheduling.quota.queue_policy import Asset

Amounts = Mapping[Asset, int]


class KeptFor(NamedTuple):
    """A pod on a node whose group keeps quota."""

    queue: str
    group: GroupKey
    number: int
    """How many pods the group will have."""
    amounts: Amounts
    """The amounts that the pod holds by itself."""
    created: str

    @property
    def key(self) -> tuple[str, GroupKey]:
        return self.queue, self.group


class KeptQuota:
    def __init__(self, charge: Callable[[str, Amounts, int], None], ending: set[str], journal: Journal) -> None:
        """`ending` are the uids of pods that are ending: these keep no quota."""
        self._charge = charge
        self._ending = ending
        self._journal = journal
        self._members: dict[tuple[str, GroupKey], dict[str, KeptFor]] = {}
        """The pods on nodes of each group that keeps quota, by uid."""
        self._charged: dict[tuple[str, GroupKey], Amounts] = {}
        """The amounts that are charged for the missing pods of each group."""

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
        """Charges the amounts of the missing pods again, after pods were added, removed or are ending."""
        self._charge(kept.queue, self._charged.get(kept.key, {}), -1)
        members = self._members[kept.key]
        # The choice must not depend on the order in which pods were added: trials take them away and put them back.
        running = [(member.created, uid) for uid, member in members.items() if uid not in self._ending]
        oldest = members[min(running)[1]] if running else None
        missing = max(0, oldest.number - len(members)) if oldest is not None else 0
        charged = {asset: amount * missing for asset, amount in oldest.amounts.items()} if oldest and missing else {}
        self._charged[kept.key] = charged
        self._charge(kept.queue, charged, 1)

    def free_for(self, queue: str, group: GroupKey | None) -> Changes:
        """Returns a trial, for a `with` statement, in which the quota that the group keeps is free."""
        trial = self._journal.trial()
        charged = self._charged.get((queue, group)) if group is not None else None
        if charged:
            self._charge(queue, charged, -1)
            trial.record(("kept quota", group), lambda: self._charge(queue, charged, 1))
        return trial
