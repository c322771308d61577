"""The cluster as the authorizers see it: the server's store, with an index of pods by node.

It is one of the observers of the server's context, so it knows of a write before the write is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.objects import Object
from dray.server import documents
from dray.server.resources import Resource, key_prefix
from dray.store.interface import Store

_PODS = key_prefix("", "pods")


class StoredView:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, set[str]] = {}
        for record in store.list(_PODS).records:
            self._place(record.key, documents.decode(record.value))

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        # A slash would let a name reach into another namespace.
        if "/" in namespace or "/" in name or not name:
            return None
        key = key_prefix(group, resource) + (f"{namespace}/{name}" if namespace else name)
        return self._read(key)

    def pods_on(self, node: str) -> Iterator[Object]:
        for key in tuple(self._pods.get(node, ())):
            pod = self._read(key)
            if pod is not None:
                yield pod

    def observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if (resource.group, resource.plural) == ("", "pods"):
            self._place(key, obj)

    def _place(self, key: str, pod: Object | None) -> None:
        node = (pod.get("spec") or {}).get("nodeName") if pod is not None else None
        before = self._node_of.pop(key, None)
        if before is not None and before != node:
            self._pods[before].discard(key)
            if not self._pods[before]:
                del self._pods[before]
        if node:
            self._node_of[key] = node
            self._pods.setdefault(node, set()).add(key)

    def _read(self, key: str) -> Object | None:
        record = self._store.get(key)
        found: Object | None = documents.decode(record.value) if record is not None else None
        return found
