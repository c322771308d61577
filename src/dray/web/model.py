"""The objects of a cluster that views are made from, kept current by informers and shared by all viewers.

A kind is watched once a view needs it, and until the model is closed. A kind that the server does not have is empty,
and is looked for again later. `read` lists a kind without watching it. `Reach` says where a kind can be listed:
everywhere, or in some namespaces.
Kinds of resource.k8s.io are given as v1, whatever version the server has.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from dray.api.conversion import convert
from dray.api.objects import Key, Object
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import ServedResource, discover
from dray.client.informer import Informer
from dray.process import memory
from dray.process.tasks import end_tasks

Listener = Callable[[str, Change], None]
"""Is told of the name of the kind and the change, after the model holds it."""
Reach = Callable[[ServedResource], Awaitable[Sequence[str]]]
"""Namespaces in which the objects of a resource can be listed; an empty name stands for all of them."""

KINDS: Final = {
    "nodes": ("", "nodes"),
    "pods": ("", "pods"),
    "events": ("", "events"),
    "slices": ("resource.k8s.io", "resourceslices"),
    "claims": ("resource.k8s.io", "resourceclaims"),
    "classes": ("resource.k8s.io", "deviceclasses"),
    "templates": ("resource.k8s.io", "resourceclaimtemplates"),
    "taintrules": ("resource.k8s.io", "devicetaintrules"),
    "podgroups": ("scheduling.k8s.io", "podgroups"),
    "workloads": ("scheduling.k8s.io", "workloads"),
    "clusterqueues": ("kueue.x-k8s.io", "clusterqueues"),
    "localqueues": ("kueue.x-k8s.io", "localqueues"),
    "cohorts": ("kueue.x-k8s.io", "cohorts"),
    "flavors": ("kueue.x-k8s.io", "resourceflavors"),
    "kaiqueues": ("scheduling.run.ai", "queues"),
}
"""Names that views use for kinds, and what they stand for."""
_LOOK_AGAIN: Final = 30.0
_PATIENCE: Final = 20.0
_MANY: Final = 10_000
"""Number of objects from which the garbage collector is told that they stay."""
_PAGE: Final = 100
"""Objects in a page of `read`: a page is decoded in one go, while the event loop waits."""


async def everywhere(resource: ServedResource) -> Sequence[str]:
    return ("",)


@dataclass(slots=True)
class Table:
    """The objects of one kind."""

    resource: ServedResource | None
    objects: dict[Key, Object]
    namespaces: Counter[str]
    """How many objects each namespace has."""

    def __iter__(self) -> Iterator[Object]:
        """Iterates over a copy, so that a thread may read while the event loop changes the table."""
        return iter(list(self.objects.values()))

    def get(self, name: str, *, namespace: str = "") -> Object | None:
        return self.objects.get((namespace, name))


class Model:
    def __init__(self, client: ApiClient, *, reach: Reach = everywhere) -> None:
        self._client = client
        self._reach = reach
        self._tables: dict[str, Table] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._informers: dict[str, list[Informer]] = {}
        self._listeners: dict[Listener, None] = {}
        self._starting = asyncio.Lock()
        self._served: dict[tuple[str, str], ServedResource] = {}
        self._looked = float("-inf")
        self._is_large = False

    def table(self, kind: str) -> Table:
        """The objects of a kind of KINDS; empty unless it was needed before and the server has it."""
        return self._tables.get(kind) or Table(None, {}, Counter())

    @property
    def is_watched(self) -> bool:
        """Whether kinds are watched, because somebody looked not long ago."""
        return bool(self._tables)

    async def read(self, kind: str) -> AsyncIterator[Object]:
        """Lists the objects of a kind page by page, for callers that keep little of them; nothing is watched."""
        async with self._starting:
            await self._look()
        resource = self._served.get(KINDS[kind])
        if resource is None:
            return
        for namespace in await self._reach(resource):
            token, is_complete = "", False
            while not is_complete:
                page = await self._client.list(resource, namespace=namespace, limit=_PAGE, continue_token=token)
                for each in page.get("items") or ():
                    yield _newest_version(each, resource)
                token = page["metadata"].get("continue") or ""
                is_complete = not token
                # Other requests have their turn between two pages.
                await asyncio.sleep(0)

    async def need(self, kinds: Sequence[str]) -> None:
        """Returns when the first list of each kind is there, or cannot be had."""
        async with self._starting:
            if missing := [kind for kind in kinds if self.table(kind).resource is None]:
                await self._look()
                for kind in missing:
                    await self._start(kind)
        waiting = [each.answered() for kind in kinds for each in self._informers.get(kind, ())]
        with memory.loading():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await asyncio.gather(*waiting)
            if missing and sum(len(self.table(kind).objects) for kind in kinds) >= _MANY:
                self._is_large = True
                memory.keep()

    def troubles(self, kinds: Sequence[str]) -> list[str]:
        """Why kinds are not current."""
        return [each.trouble for kind in kinds for each in self._informers.get(kind, ()) if each.trouble]

    def listen(self, listener: Listener) -> None:
        self._listeners[listener] = None

    def forget(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    async def close(self) -> None:
        """Watches nothing any more; what is needed later is watched anew."""
        # What is being started belongs to these tables.
        async with self._starting:
            tasks, self._tasks = self._tasks, []
            self._tables.clear()
            self._informers.clear()
            await end_tasks(tasks)
            if self._is_large:
                self._is_large = False
                memory.drop()

    async def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked > _LOOK_AGAIN:
            found = await discover(self._client)
            self._served = {(each.group, each.plural): each for each in found.preferred}
            self._looked = now

    async def _start(self, kind: str) -> None:
        resource = self._served.get(KINDS[kind])
        if resource is None:
            return
        table = self._tables[kind] = Table(resource, {}, Counter())
        for namespace in await self._reach(resource):
            informer = Informer(self._client, resource, namespace=namespace)
            informer.add_handler(self._taking(kind, table, resource))
            self._informers.setdefault(kind, []).append(informer)
            self._tasks.append(asyncio.create_task(informer.run(), name=f"page: informer of {kind}"))

    def _taking(self, kind: str, table: Table, resource: ServedResource) -> Callable[[Change], None]:
        def take(change: Change) -> None:
            if change.type == "DELETED":
                previous = table.objects.pop(change.key, None)
                if previous is not None:
                    table.namespaces[change.key[0]] -= 1
                change = Change(change.type, change.key, previous or change.object, previous)
            else:
                value = _newest_version(change.object, resource)
                change = Change(change.type, change.key, value, table.objects.get(change.key))
                if change.previous is None:
                    table.namespaces[change.key[0]] += 1
                table.objects[change.key] = value
            for listener in list(self._listeners):
                listener(kind, change)

        return take


def _newest_version(document: Object, resource: ServedResource) -> Object:
    if resource.group != "resource.k8s.io" or resource.version == "v1":
        return document
    return convert({**document, "apiVersion": resource.api_version, "kind": resource.kind}, "v1")
