"""Quota usage of each namespace, by what is in the store.

A namespace that has a quota gets a ledger when somebody first asks, and loses it with its last quota: most namespaces
have none. Objects other than those of a ledger count as one each.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object
from dray.api.quota import charges, names
from dray.server import documents, status
from dray.server.quota.ledger import Ledger
from dray.server.resources import Resource, key_prefix
from dray.store.interface import Store

_PREFIXES = {
    names.PODS: key_prefix("", "pods"),
    names.CLAIMS: key_prefix(RESOURCE_GROUP, "resourceclaims"),
    names.SERVICES: key_prefix("", "services"),
}
_RESOURCES = {prefix: resource for resource, prefix in _PREFIXES.items()}
_CLASSES = key_prefix(RESOURCE_GROUP, "deviceclasses")
_QUOTAS = key_prefix("", "resourcequotas")
OBSERVED = (*_RESOURCES, _CLASSES, _QUOTAS)


def qualified(resource: Resource) -> str:
    return status.qualified(resource.group, resource.plural)


class QuotaUsage:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._ledgers: dict[str, Ledger] = {}

    def observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if resource.key_prefix != _QUOTAS:
            self.expect(resource, key)
        elif obj is None:
            # It may have been the last; if not, the ledger is made anew when somebody asks.
            self.forget(key.removeprefix(_QUOTAS).partition("/")[0])

    def expect(self, resource: Resource, key: str) -> None:
        """A write is under way: whoever asks from now on must see it, not only once it is durable."""
        if not self._ledgers:
            return
        if resource.key_prefix == _CLASSES:
            # The names under which devices count may have changed.
            self._ledgers.clear()
            return
        counted = _RESOURCES.get(resource.key_prefix)
        if counted is None:
            return
        namespace, _, name = key.removeprefix(resource.key_prefix).partition("/")
        ledger = self._ledgers.get(namespace)
        if ledger is not None:
            ledger.expect((counted, name))

    def forget(self, namespace: str) -> None:
        """The namespace has no quota any more."""
        self._ledgers.pop(namespace, None)

    def charged(self, resource: Resource, obj: Object, now: datetime) -> Counter[str]:
        """What one object takes, by the names that quotas use."""
        plural = qualified(resource)
        if resource.key_prefix in _RESOURCES:
            return self._ledger(obj["metadata"]["namespace"]).charged(plural, obj, now)
        found = Counter({f"count/{plural}": charges.UNIT})
        if names.counted(plural):
            found[plural] = charges.UNIT
        return found

    def used(self, quota: Object, name: str, resource: Resource, now: datetime) -> int:
        """How much of a quota's name is taken by objects of a resource and of those that count with them."""
        namespace = quota["metadata"]["namespace"]
        if resource.key_prefix in _RESOURCES:
            return self._ledger(namespace).used(quota, name, now)
        page = self._store.list(f"{resource.key_prefix}{namespace}/", limit=1)
        return (len(page.records) + page.remaining) * charges.UNIT

    def _ledger(self, namespace: str) -> Ledger:
        ledger = self._ledgers.get(namespace)
        if ledger is None:
            ledger = self._ledgers[namespace] = self._made(namespace)
        return ledger

    def _made(self, namespace: str) -> Ledger:
        prefixes = {resource: f"{prefix}{namespace}/" for resource, prefix in _PREFIXES.items()}

        def read(resource: str, name: str) -> Object | None:
            record = self._store.get(prefixes[resource] + name)
            return documents.decode(record.value) if record is not None else None

        there = [
            (resource, record.key.removeprefix(prefix))
            for resource, prefix in prefixes.items()
            for record in self._store.list(prefix).records
        ]
        return Ledger(read, self._extended_name, there)

    def _extended_name(self, device_class: str) -> str | None:
        record = self._store.get(_CLASSES + device_class)
        return documents.decode(record.value)["spec"].get("extendedResourceName") if record is not None else None
