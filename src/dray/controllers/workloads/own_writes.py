"""Read-your-writes for controllers: what a cache lacks of their own writes is added to what it shows.

The answer to a write is kept until the informer has come as far; the newer of the two is what there is. Without this a
ReplicaSet would make a pod again that it has made and not seen yet. Versions are compared as numbers, as Kubernetes
allows;
from a server whose versions are none, the cache alone counts.
"""

from __future__ import annotations

from typing import Protocol

from dray.api.catalogue import KindVersion
from dray.api.objects import Key, Object, key_of, status_of, uid_of, version_number, version_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.informer import Informer
from dray.client.queue import WorkQueue


def is_behind(informer: Informer, value: Object) -> bool:
    """Whether the informer may not have come to what was true when the object, of any kind, was written."""
    return version_number(informer.resource_version) < version_of(value) or not version_of(value)


class OwnWrites:
    """Objects of one informer that were written here, by the uid of their owner."""

    def __init__(self, informer: Informer) -> None:
        self._informer = informer
        self._written: dict[str, dict[str, Object]] = {}

    def put(self, owner: str, value: Object) -> None:
        """Remembers the answer to a write."""
        if not version_of(value):
            return
        mine = self._written.setdefault(owner, {})
        uid = value["metadata"]["uid"]
        if uid not in mine or version_of(mine[uid]) <= version_of(value):
            mine[uid] = value

    def newest(self, owner: str, cached: list[Object]) -> list[Object]:
        """Returns the owner's cached objects, or newer versions that were written here and are not cached yet."""
        mine = self._written.get(owner)
        if not mine:
            return cached
        found = {obj["metadata"]["uid"]: obj for obj in cached}
        for uid, value in list(mine.items()):
            if _is_shown(value, found[uid]) if uid in found else not is_behind(self._informer, value):
                del mine[uid]
            else:
                found[uid] = value
        return list(found.values())

    def pending(self, owner: str) -> bool:
        """Whether the informer has something still to show."""
        return any(self._is_unseen(value) for value in self._written.get(owner, {}).values())

    def removed(self, owner: str, uid: str) -> None:
        """Forgets an object that the informer reported as deleted."""
        mine = self._written.get(owner)
        if mine is not None:
            mine.pop(uid, None)
            if not mine:
                del self._written[owner]

    def newest_owner(self, key: Key, kind: KindVersion) -> Object | None:
        """Returns the owner at its newest version, None if it is gone. Adds apiVersion and kind, for events."""
        cached = self._informer.cache.get(key[1], namespace=key[0])
        if cached is None:
            return None
        (newest,) = self.newest(uid_of(cached), [cached])
        return {**newest, "apiVersion": kind.api_version, "kind": kind.kind}

    async def write_status(self, client: ApiClient, kind: KindVersion, owner: Object, status: Object) -> None:
        """Writes the status of an owner, unless it is unchanged, and remembers the result."""
        if status != status_of(owner):
            after = await client.update_status(kind, {**owner, "status": status})
            self.put(uid_of(after), after)

    def forget(self, owner: str) -> None:
        self._written.pop(owner, None)

    def _is_unseen(self, value: Object) -> bool:
        namespace, name = key_of(value)
        cached = self._informer.cache.get(name, namespace=namespace)
        return cached is None or version_of(cached) < version_of(value)


def _is_shown(written: Object, cached: Object) -> bool:
    """Whether the cache has what was written. What is known to be leaving or gone keeps the version it last had."""
    if version_of(written) != version_of(cached):
        return version_of(written) < version_of(cached)
    return bool(written["metadata"] == cached["metadata"])


class Forgets(Protocol):
    """An object that keeps data by the uid of an owner."""

    def forget(self, owner: str, /) -> None: ...


def follow_owner(change: Change, queue: WorkQueue[Key], *kept: Forgets) -> None:
    """Queues an owner that changed; forgets the data of a deleted one."""
    if change.type != "DELETED":
        queue.add(change.key)
        return
    for own_writes in kept:
        own_writes.forget(uid_of(change.object))
