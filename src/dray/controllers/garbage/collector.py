"""The garbage collector: checks objects whose owner was deleted, and owners that wait for their dependents.

Work is keyed by uid. Objects whose owners were all seen cost nothing; before anything is deleted, the absence of its
owners is confirmed by the server itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from dray.api.caches import BoundedDict
from dray.api.objects import Object, metadata_of
from dray.client.cache import Change
from dray.client.discovery import ServedResource
from dray.client.errors import NotFound
from dray.client.interface import DeleteOptions
from dray.controllers.environment import Environment, Workers
from dray.controllers.garbage.graph import (
    FOREGROUND,
    ORPHAN,
    Fate,
    Graph,
    Item,
    Owners,
    Source,
    blocks,
    is_waiting,
    policy,
    unblocked,
    without_owners,
)
from dray.controllers.garbage.monitors import Monitors

# An owner may be seen later than its dependent: they come by different watches.
_LATE: Final = 0.5
_ABSENT: Final = 10_000
_WORKERS: Final = 20
_AT_ONCE: Final = 8


class GarbageCollector:
    def __init__(self, environment: Environment) -> None:
        self._client = environment.client
        self._events = environment.events
        self._graph = Graph()
        self._workers: Workers[str] = environment.workers(
            "garbage collector", self.reconcile, called=lambda uid: str(self._graph.get(uid) or uid), count=_WORKERS
        )
        self._monitors = Monitors(environment, self._observe, dropped=self._drop_source, changed=self._reconsider)
        # Owners that stay until their dependents are gone.
        self._waiting: set[str] = set()
        # Dependents with an owner of a kind that nobody knows.
        self._undecided: set[str] = set()
        # Owners that the server does not have, as they were described and the namespace they were looked for in.
        self._absent: BoundedDict[tuple[str, ...], None] = BoundedDict(_ABSENT)
        self._began = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._monitors.run(), name="garbage: monitors")
            await self._monitors.synced()
            self._began = True
            for item in self._graph.owned():
                found = item.read()
                if found is not None:
                    self._check_owners(item, found["metadata"], late=0)
            group.create_task(self._workers.run(), name="garbage: workers")

    # What happens, as it is seen.

    def _observe(self, source: Source, change: Change) -> None:
        metadata = change.object["metadata"]
        if change.type == "DELETED":
            self._remove((change.previous or change.object)["metadata"]["uid"])
            return
        if change.previous is not None and not _matters(change.previous["metadata"], metadata):
            return
        item, lost = self._graph.put(source, change.object)
        if self._waiting and (change.previous is not None or lost):
            # It may have held them up until now: a reference that is gone, or no longer blocks.
            for owner in {*lost, *item.owners} & self._waiting:
                self._workers.queue.add(owner)
        if metadata.get("deletionTimestamp"):
            self._end(item.uid, metadata.get("finalizers") or ())
        elif item.owners and self._began:
            self._check_owners(item, metadata)

    def _end(self, uid: str, finalizers: list[str] | tuple[str, ...]) -> None:
        if FOREGROUND in finalizers:
            self._waiting.add(uid)
            self._workers.queue.add(uid)
        else:
            self._waiting.discard(uid)
            if ORPHAN in finalizers:
                self._workers.queue.add(uid)

    def _check_owners(self, item: Item, metadata: Object, late: float = _LATE) -> None:
        unseen = False
        for reference in metadata.get("ownerReferences") or ():
            uid = reference["uid"]
            if uid in self._waiting or self._graph.was_seen_to_go(uid):
                self._workers.queue.add(item.uid)
            elif not unseen:
                unseen = not self._graph.stands(reference, item.namespace)
        # Once, however many there are.
        if unseen:
            self._workers.queue.add_after(item.uid, late)

    def _remove(self, uid: str) -> None:
        item = self._graph.remove(uid)
        self._waiting.discard(uid)
        self._undecided.discard(uid)
        for dependent in self._graph.dependents(uid):
            self._workers.queue.add(dependent.uid)
        if item is not None and self._waiting:
            for owner in item.owners:
                if owner in self._waiting:
                    self._workers.queue.add(owner)

    def _drop_source(self, source: Source) -> None:
        for item in self._graph.of_source(source):
            self._remove(item.uid)

    def _reconsider(self) -> None:
        """Queues undecided objects again: the set of served kinds changed."""
        for uid in self._undecided:
            self._workers.queue.add(uid)
        self._undecided.clear()

    # What is done about it.

    async def reconcile(self, uid: str) -> None:
        item = self._graph.get(uid)
        found = item.read() if item is not None else None
        if item is None or found is None:
            return
        metadata = found["metadata"]
        if not metadata.get("deletionTimestamp"):
            await self._judge(item, metadata)
        elif ORPHAN in (metadata.get("finalizers") or ()):
            await self._orphan_dependents(item, metadata)
        elif FOREGROUND in (metadata.get("finalizers") or ()):
            await self._delete_dependents(item, metadata)

    async def _judge(self, item: Item, metadata: Object) -> None:
        owners = Owners()
        for reference in metadata.get("ownerReferences") or ():
            owners.add(reference, await self._fate(item, reference))
        if owners.undecided:
            self._undecided.add(item.uid)
            return
        if owners.solid:
            if owners.leaving:
                await self._drop_owners(item, owners.leaving)
            return
        dependents = self._graph.dependents(item.uid)
        if owners.waiting and dependents:
            if any(dependent.uid in self._waiting for dependent in dependents):
                # They wait for each other in a circle: this one lets go.
                metadata = await self._patch(item, metadata, {"ownerReferences": unblocked(metadata)}) or metadata
            await self._delete(item, metadata, "Foreground")
        elif owners.leaving:
            await self._delete(item, metadata, policy(metadata))

    async def _fate(self, item: Item, reference: Object) -> Fate:
        """Determines what became of an owner; asks the server before it reports an owner as gone or terminating."""
        uid = reference["uid"]
        if uid not in self._waiting and self._graph.stands(reference, item.namespace):
            return Fate.SOLID
        api_version, kind, name = (str(reference.get(part) or "") for part in ("apiVersion", "kind", "name"))
        described = (uid, item.namespace, api_version, kind, name)
        if described in self._absent:
            return Fate.DANGLING
        resource = self._monitors.find(api_version, kind)
        if resource is None:
            if self._graph.was_seen_to_go(uid):
                return Fate.DANGLING
            return Fate.UNDECIDED
        if resource.namespaced and not item.namespace:
            self._complain(item, reference)
            return Fate.UNDECIDED
        owner = await self._live(resource, item.namespace if resource.namespaced else "", name)
        if owner is None or owner["metadata"].get("uid") != uid:
            if self._graph.get(uid) is not None:
                self._complain(item, reference)
            self._absent[described] = None
            return Fate.DANGLING
        return Fate.WAITING if is_waiting(owner["metadata"]) else Fate.SOLID

    async def _orphan_dependents(self, item: Item, metadata: Object) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def free(dependent: Item) -> None:
            async with turns:
                await self._drop_owners(dependent, {item.uid})

        freed = [free(dependent) for dependent in self._graph.dependents(item.uid)]
        for outcome in await asyncio.gather(*freed, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
        await self._release(item, metadata, ORPHAN)

    async def _delete_dependents(self, item: Item, metadata: Object) -> None:
        blocked = False
        for dependent in self._graph.dependents(item.uid):
            found = dependent.read()
            if found is None:
                continue
            blocked = blocked or blocks(found["metadata"], item.uid)
            if not found["metadata"].get("deletionTimestamp"):
                self._workers.queue.add(dependent.uid)
        if not blocked:
            await self._release(item, metadata, FOREGROUND)

    async def _live(self, resource: ServedResource, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except NotFound:
            return None
        except ValueError:
            # Nothing can have that name.
            return None

    async def _delete(self, item: Item, metadata: Object, propagation: str) -> None:
        """Deletes the object only if its uid and version are those that the decision was made from."""
        options = DeleteOptions(
            uid=item.uid, resource_version=metadata.get("resourceVersion") or "", propagation=propagation
        )
        with suppress(NotFound):
            await self._client.delete(item.source.resource, item.name, namespace=item.namespace, options=options)

    async def _drop_owners(self, item: Item, owners: set[str]) -> None:
        live = await self._live(item.source.resource, item.namespace, item.name)
        if live is None or live["metadata"].get("uid") != item.uid:
            return
        left = without_owners(live["metadata"], owners)
        if left is not None:
            await self._patch(item, live["metadata"], {"ownerReferences": left})

    async def _release(self, item: Item, metadata: Object, finalizer: str) -> None:
        left = [present for present in metadata.get("finalizers") or () if present != finalizer]
        await self._patch(item, metadata, {"finalizers": left})

    async def _patch(self, item: Item, metadata: Object, change: Object) -> Object | None:
        """Patches the object at its version. Returns the new metadata; None if the object is gone."""
        pinned = {"uid": item.uid, "resourceVersion": metadata.get("resourceVersion")}
        body = {"metadata": {**pinned, **change}}
        try:
            answer = await self._client.patch(item.source.resource, item.name, body, namespace=item.namespace)
        except NotFound:
            return None
        return dict(metadata_of(answer))

    def _complain(self, item: Item, reference: Object) -> None:
        resource = item.source.resource
        place = {"name": item.name, "namespace": item.namespace, "uid": item.uid}
        about = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": place}
        owner = f"{reference.get('apiVersion')}/{reference.get('kind')}, name: {reference.get('name')}"
        text = f'ownerRef [{owner}, uid: {reference["uid"]}] does not exist in namespace "{item.namespace}"'
        self._events.warning(about, "OwnerRefInvalidNamespace", text)


def _matters(before: Object, now: Object) -> bool:
    return (
        before.get("ownerReferences") != now.get("ownerReferences")
        or before.get("deletionTimestamp") != now.get("deletionTimestamp")
        or before.get("finalizers") != now.get("finalizers")
    )
