"""How much of a namespace's quota is used, kept up to date with every write.

Claims count by device class, as Kubernetes counts them: what a request asks for exactly; 32 for all devices; of
alternatives, per class the most that one of them asks for. Objects of every kind count as one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dray.api.catalogue import RESOURCE_GROUP
from dray.server import documents
from dray.server.resources import Resource, key_prefix
from dray.store.interface import Store

Object = dict[str, Any]

CLAIMS = key_prefix(RESOURCE_GROUP, "resourceclaims")
_CLASSES = key_prefix(RESOURCE_GROUP, "deviceclasses")
# The most devices a claim can get: what a request for all of them counts.
_ALL_DEVICES = 32
_MOST_WAITING = 50_000
_DONE = (b'"phase":"Succeeded"', b'"phase":"Failed"')
# Kinds of the core group whose number has a name of its own.
_PLAIN_COUNTS = frozenset({"configmaps", "pods", "resourcequotas", "secrets", "services"})


def devices(claim: Object) -> Counter[str]:
    """Devices by class that a claim may take."""
    total: Counter[str] = Counter()
    for request in claim["spec"]["devices"].get("requests") or ():
        if request.get("exactly"):
            total[request["exactly"].get("deviceClassName", "")] += _amount(request["exactly"])
            continue
        most: Counter[str] = Counter()
        for alternative in request.get("firstAvailable") or ():
            most |= Counter({alternative.get("deviceClassName", ""): _amount(alternative)})
        total += most
    return total


def _amount(request: Object) -> int:
    mode = request.get("allocationMode")
    if mode == "All":
        return _ALL_DEVICES
    return int(request.get("count") or 0) if mode == "ExactCount" else 0


class QuotaUsage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._claims: dict[str, Counter[str]] = {}
        self._totals: dict[str, Counter[str]] = {}
        # Claims that were written since somebody last asked: most namespaces have no quota.
        self._written = {record.key for record in store.list(CLAIMS).records}

    def observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is not None or self._store.get(key) is not None:
            self.expect(key)
        else:
            self._written.discard(key)
            if key in self._claims:
                self._put(key, None)

    def expect(self, key: str) -> None:
        """A write is under way: whoever asks from now on must see it, not only once it is durable."""
        if key.startswith(CLAIMS):
            self._written.add(key)
            if len(self._written) > _MOST_WAITING:
                self._catch_up()

    def _catch_up(self) -> None:
        for key in self._written:
            record = self._store.get(key)
            self._put(key, documents.decode(record.value) if record is not None else None)
        self._written.clear()

    def _put(self, key: str, claim: Object | None) -> None:
        namespace = key.removeprefix(CLAIMS).partition("/")[0]
        total = self._totals.setdefault(namespace, Counter())
        before = self._claims.pop(key, None)
        if before is not None:
            total -= before
        if claim is not None:
            self._claims[key] = devices(claim)
            total += self._claims[key]
        self._totals[namespace] = +total

    def charged(self, resource: Resource, obj: Object | None) -> Counter[str]:
        """What one object takes, by the names that quotas use."""
        if obj is None:
            return Counter()
        found = Counter({f"count/{_qualified(resource)}": 1})
        if not resource.group and resource.plural in _PLAIN_COUNTS:
            found[resource.plural] = 1
        if resource.key_prefix == CLAIMS:
            for name, amount in devices(obj).items():
                found.update(dict.fromkeys(self._names(name), amount))
        return found

    def used(self, name: str, resource: Resource, namespace: str) -> int:
        """How much of a quota's name is taken in a namespace by the objects of a resource."""
        if name == "pods":
            return self._pods(resource, namespace)
        if name in (f"count/{_qualified(resource)}", resource.plural):
            page = self._store.list(f"{resource.key_prefix}{namespace}/", limit=1)
            return len(page.records) + page.remaining
        self._catch_up()
        totals = self._totals.get(namespace, Counter())
        return sum(amount for device_class, amount in totals.items() if name in self._names(device_class))

    def _pods(self, resource: Resource, namespace: str) -> int:
        """Pods that are done take nothing any more."""
        records = self._store.list(f"{resource.key_prefix}{namespace}/").records
        return sum(1 for record in records if not any(mark in record.value for mark in _DONE))

    def _names(self, device_class: str) -> list[str]:
        found = [
            f"{device_class}.deviceclass.resource.k8s.io/devices",
            f"requests.deviceclass.resource.kubernetes.io/{device_class}",
        ]
        record = self._store.get(_CLASSES + device_class)
        extended = documents.decode(record.value)["spec"].get("extendedResourceName") if record else None
        return [*found, f"requests.{extended}"] if extended else found


def _qualified(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
