"""KeptQuota: quota that groups keep for pods that are yet to come, or that replace others.

As long as a pod of such a group is on a node and was not asked to go, its queue is charged for all pods that the group
has in the end: for each that is missing as much as for one that is there. What is kept is for pods of the group alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.scheduling.model.group import GroupKey
from dray.scheduling.quota.queue_policy import Asset

Amounts = Mapping[Asset, int]


class KeptFor(NamedTuple):
    queue: str
    group: GroupKey


@dataclass(slots=True)
class _Kept:
    number: int
    """How many pods the group has in the end."""
    members: dict[str, Amounts] = field(default_factory=dict)
    """By pod uid, what each that is there has by itself."""
    charged: dict[Asset, int] = field(default_factory=dict)
    """For those that are missing."""


class KeptQuota:
    def __init__(self, charge: Callable[[str, Amounts, int], None], ending: set[str]) -> None:
        """`ending` are pods by uid that were asked to go: these keep nothing."""
        self._charge = charge
        self._ending = ending
        self._known: dict[KeptFor, _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, key: KeptFor, number: int, uid: str, amounts: Amounts) -> None:
        known = self._known.setdefault(key, _Kept(number))
        known.number = number
        known.members[uid] = amounts
        self.settle(key)

    def remove(self, key: KeptFor, uid: str) -> None:
        self._known[key].members.pop(uid, None)
        self.settle(key)
        if not self._known[key].members:
            del self._known[key]

    def settle(self, key: KeptFor) -> None:
        """Charges what is missing now, which may be less than before if pods came or were asked to go."""
        known = self._known[key]
        self._charge(key.queue, known.charged, -1)
        staying = [amounts for uid, amounts in known.members.items() if uid not in self._ending]
        missing = max(0, known.number - len(known.members)) if staying else 0
        known.charged = {asset: amount * missing for asset, amount in staying[-1].items()} if missing else {}
        self._charge(key.queue, known.charged, 1)

    @contextmanager
    def lent(self, queue: str, group: GroupKey | None) -> Iterator[None]:
        """What the group keeps is free meanwhile."""
        known = self._known.get(KeptFor(queue, group)) if group is not None else None
        charged = known.charged if known is not None else {}
        self._charge(queue, charged, -1)
        try:
            yield
        finally:
            self._charge(queue, charged, 1)
