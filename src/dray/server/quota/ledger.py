"""Quota ledger of one namespace: what its pods, claims and services take, by object and in total.

Objects that were written are read again when somebody asks. Totals are kept by what decides which scopes a pod is in,
so a quota with scopes adds up a few numbers. A claim that was made for the extended resources of a pod depends on that
pod and on the other claims that name it: they are charged anew together.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from dray.api.objects import Object
from dray.api.quota import charges, scopes
from dray.api.quota.charges import ExtendedName
from dray.api.quota.names import CLAIMS, PODS

Read = Callable[[str, str], Object | None]
"""The object of a resource by its name."""
Entry = tuple[str, str]
"""A resource, as `plural.group`, and the name of an object."""


class _Charge(NamedTuple):
    scoped: scopes.Scoped | None
    amounts: Counter[str]


class Ledger:
    def __init__(self, read: Read, extended_name: ExtendedName, objects: Iterable[Entry]) -> None:
        self._read = read
        self._extended_name = extended_name
        self._written: set[Entry] = set(objects)
        self._charges: dict[Entry, _Charge] = {}
        self._totals: dict[scopes.Scoped | None, Counter[str]] = {}
        # When pods that are being deleted stop to count.
        self._ends: list[tuple[datetime, Entry]] = []
        # The pods that claims name as their owners, and the other way round.
        self._owner: dict[Entry, Entry] = {}
        self._owned: dict[Entry, set[Entry]] = {}

    def expect(self, entry: Entry) -> None:
        """The object was written, or is about to be."""
        self._written.add(entry)

    def used(self, quota: Object, name: str, now: datetime) -> int:
        """How much is taken of a name of the quota, in nanos."""
        self._catch_up(now)
        is_scoped = scopes.has_scopes(quota)
        return sum(
            amounts[name]
            for scoped, amounts in self._totals.items()
            if (not is_scoped if scoped is None else scopes.covers(quota, scoped))
        )

    def charged(self, resource: str, obj: Object, now: datetime) -> Counter[str]:
        """What an object takes that may not be stored yet."""
        if resource == PODS:
            return charges.OVER if charges.is_over(obj, now) else charges.of_pod(obj)
        if resource == CLAIMS:
            self._catch_up(now)
            return charges.of_claim(obj, self._extended_name, self._paid(obj, now))
        return charges.of_service(obj)

    def _catch_up(self, now: datetime) -> None:
        while self._ends and self._ends[0][0] < now:
            self._written.add(heapq.heappop(self._ends)[1])
        if not self._written:
            return
        affected, self._written = self._written, set()
        for entry in [entry for entry in affected if entry[0] == CLAIMS]:
            affected |= self._own(entry, self._read(*entry))
        for entry in [entry for entry in affected if entry in self._owned]:
            affected |= self._owned[entry]
        for entry in affected:
            self._charge(entry, self._read(*entry), now)

    def _own(self, entry: Entry, claim: Object | None) -> set[Entry]:
        """Notes which pod owns a claim; gives the claims of its owners before and now."""
        affected: set[Entry] = set()
        before = self._owner.pop(entry, None)
        if before is not None:
            affected |= self._owned[before]
            self._owned[before].discard(entry)
            if not self._owned[before]:
                del self._owned[before]
        named = charges.owning_pod(claim) if claim is not None else None
        if named is not None:
            owner = self._owner[entry] = (PODS, named[0])
            self._owned.setdefault(owner, set()).add(entry)
            affected |= self._owned[owner]
        return affected

    def _charge(self, entry: Entry, obj: Object | None, now: datetime) -> None:
        before = self._charges.pop(entry, None)
        if before is not None:
            self._totals[before.scoped].subtract(before.amounts)
        if obj is None:
            return
        resource = entry[0]
        if resource == PODS:
            end = charges.end_of_grace(obj)
            if end is not None and end >= now:
                heapq.heappush(self._ends, (end, entry))
            over = charges.is_over(obj, now)
            charge = _Charge(scopes.scoped(obj), charges.OVER if over else charges.of_pod(obj))
        elif resource == CLAIMS:
            charge = _Charge(None, charges.of_claim(obj, self._extended_name, self._paid(obj, now)))
        else:
            charge = _Charge(None, charges.of_service(obj))
        self._charges[entry] = charge
        self._totals.setdefault(charge.scoped, Counter()).update(charge.amounts)

    def _paid(self, claim: Object, now: datetime) -> Counter[str] | None:
        """What the pod takes for whose extended resources the claim was made, if it has paid for this one."""
        named = charges.owning_pod(claim)
        pod = self._read(PODS, named[0]) if named is not None else None
        if named is None or pod is None or pod["metadata"]["uid"] != named[1] or charges.is_over(pod, now):
            return None
        others = (self._read(*entry) for entry in self._owned.get((PODS, named[0]), ()))
        same = [other for other in others if other is not None and charges.owning_pod(other) == named]
        return charges.of_pod(pod) if charges.is_charged_with(pod, claim, same) else None
