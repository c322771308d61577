"""Quota usage of each namespace for admission, by what is in the store and by the rules of `dray.api.quota`.

A namespace that has a quota gets a `NamespaceUsage` at the first request, and loses it with its last quota: most
namespaces have none. Objects other than those it adds up count as one each.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object
from dray.api.quota import charges, names, scopes
from dray.api.quota.charges import ExtendedName
from dray.api.quota.names import CLAIMS, PODS, VOLUMES
from dray.server import documents, status
from dray.server.resources import Resource, key_prefix
from dray.store.interface import Store

_PREFIXES = {
    names.PODS: key_prefix("", "pods"),
    names.CLAIMS: key_prefix(RESOURCE_GROUP, "resourceclaims"),
    names.SERVICES: key_prefix("", "services"),
    names.VOLUMES: key_prefix("", "persistentvolumeclaims"),
}
_RESOURCES = {prefix: resource for resource, prefix in _PREFIXES.items()}
_CLASSES = key_prefix(RESOURCE_GROUP, "deviceclasses")
_QUOTAS = key_prefix("", "resourcequotas")
OBSERVED = (*_RESOURCES, _CLASSES, _QUOTAS)
Read = Callable[[str, str], Object | None]
"""Returns an object of a resource by name."""
Entry = tuple[str, str]
"""A resource as `plural.group`, and the name of an object."""


def qualified(resource: Resource) -> str:
    return status.qualified(resource.group, resource.plural)


class QuotaUsage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._namespaces: dict[str, NamespaceUsage] = {}

    def observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if resource.key_prefix != _QUOTAS:
            self.expect(resource, key)
        elif obj is None:
            # Other quotas of the namespace rebuild the usage on the next request.
            self.forget(key.removeprefix(_QUOTAS).partition("/")[0])

    def expect(self, resource: Resource, key: str) -> None:
        """Records that a write has started, so that later requests count it before it is durable."""
        if not self._namespaces:
            return
        if resource.key_prefix == _CLASSES:
            # The resource names under which devices count may have changed.
            self._namespaces.clear()
            return
        counted = _RESOURCES.get(resource.key_prefix)
        if counted is None:
            return
        namespace, _, name = key.removeprefix(resource.key_prefix).partition("/")
        usage = self._namespaces.get(namespace)
        if usage is not None:
            usage.expect((counted, name))

    def forget(self, namespace: str) -> None:
        """Drops the usage of a namespace that lost its last quota."""
        self._namespaces.pop(namespace, None)

    def charged(self, resource: Resource, obj: Object, now: datetime) -> Counter[str]:
        """Returns the usage of one object, by the names that quotas use."""
        plural = qualified(resource)
        if resource.key_prefix in _RESOURCES:
            return self._usage(obj["metadata"]["namespace"]).charged(plural, obj, now)
        found = Counter({f"count/{plural}": charges.UNIT})
        if names.counted(plural):
            found[plural] = charges.UNIT
        return found

    def used(self, quota: Object, name: str, resource: Resource, now: datetime) -> int:
        """Returns how much of a name of the quota is used, by the resource and those counted with it."""
        namespace = quota["metadata"]["namespace"]
        if resource.key_prefix in _RESOURCES:
            return self._usage(namespace).used(quota, name, now)
        page = self._store.list(f"{resource.key_prefix}{namespace}/", limit=1)
        return (len(page.records) + page.remaining) * charges.UNIT

    def _usage(self, namespace: str) -> NamespaceUsage:
        usage = self._namespaces.get(namespace)
        if usage is None:
            usage = self._namespaces[namespace] = self._made(namespace)
        return usage

    def _made(self, namespace: str) -> NamespaceUsage:
        prefixes = {resource: f"{prefix}{namespace}/" for resource, prefix in _PREFIXES.items()}

        def read(resource: str, name: str) -> Object | None:
            record = self._store.get(prefixes[resource] + name)
            return documents.decode(record.value) if record is not None else None

        there = [
            (resource, record.key.removeprefix(prefix))
            for resource, prefix in prefixes.items()
            for record in self._store.list(prefix).records
        ]
        return NamespaceUsage(read, self._extended_name, there)

    def _extended_name(self, device_class: str) -> str | None:
        record = self._store.get(_CLASSES + device_class)
        return documents.decode(record.value)["spec"].get("extendedResourceName") if record is not None else None


class _Charge(NamedTuple):
    scoped: scopes.Scoped | scopes.ScopedVolume | None
    amounts: Counter[str]


class NamespaceUsage:
    """Usage of one namespace by its pods, claims, volume claims and services, by object and in total.

    Written objects are read again on the next request. Totals are kept by the properties that scopes match, so a quota
    with scopes adds up a few numbers. A claim made for the extended resources of a pod depends on that pod and on the
    other claims that name it: they are charged again together.
    """

    def __init__(self, read: Read, extended_name: ExtendedName, objects: Iterable[Entry]) -> None:
        self._read = read
        self._extended_name = extended_name
        self._written: set[Entry] = set(objects)
        self._charges: dict[Entry, _Charge] = {}
        self._totals: dict[scopes.Scoped | scopes.ScopedVolume | None, Counter[str]] = {}
        # When deleted pods stop to count.
        self._ends: list[tuple[datetime, Entry]] = []
        # The owner pods of claims, and the claims of owner pods.
        self._owner: dict[Entry, Entry] = {}
        self._owned: dict[Entry, set[Entry]] = {}

    def expect(self, entry: Entry) -> None:
        """Records that the object was written, or is about to be written."""
        self._written.add(entry)

    def used(self, quota: Object, name: str, now: datetime) -> int:
        """Returns the used amount of a name of the quota, in nanos."""
        self._catch_up(now)
        return sum(amounts[name] for scoped, amounts in self._totals.items() if scopes.covers(quota, scoped))

    def charged(self, resource: str, obj: Object, now: datetime) -> Counter[str]:
        """Returns the usage of an object that may not be stored yet."""
        if resource == PODS:
            return charges.OVER if charges.is_over(obj, now) else charges.of_pod(obj)
        if resource == CLAIMS:
            self._catch_up(now)
            return charges.of_claim(obj, self._extended_name, self._paid(obj, now))
        return charges.of_volume(obj) if resource == VOLUMES else charges.of_service(obj)

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
        """Records the owner pod of a claim. Returns the claims of its owners before and now."""
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
        elif resource == VOLUMES:
            charge = _Charge(scopes.scoped_volume(obj), charges.of_volume(obj))
        else:
            charge = _Charge(None, charges.of_service(obj))
        self._charges[entry] = charge
        self._totals.setdefault(charge.scoped, Counter()).update(charge.amounts)

    def _paid(self, claim: Object, now: datetime) -> Counter[str] | None:
        """Returns the charges of the pod for whose extended resources the claim was made, if they include the claim."""
        named = charges.owning_pod(claim)
        pod = self._read(PODS, named[0]) if named is not None else None
        if named is None or pod is None or pod["metadata"]["uid"] != named[1] or charges.is_over(pod, now):
            return None
        others = (self._read(*entry) for entry in self._owned.get((PODS, named[0]), ()))
        same = [other for other in others if other is not None and charges.owning_pod(other) == named]
        return charges.of_pod(pod) if charges.is_charged_with(pod, claim, same) else None
