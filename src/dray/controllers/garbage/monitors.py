"""Monitors: an informer on every resource that the server serves and that can be deleted.

The kinds of the catalogue are read through the informers of the process, which others read as well. Of all other
kinds, and of those whose contents nobody here needs, only the metadata is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, cast

from dray.api.catalogue import RBAC_GROUP, find_plural, split_api_version
from dray.api.objects import Object, metadata_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import ServedResource, discover
from dray.client.errors import ClientError
from dray.client.informer import Informer
from dray.client.interface import EVERYTHING, Resource, Selection, WatchEvent
from dray.client.retries import Backoff, Retries
from dray.controllers.environment import Environment
from dray.controllers.garbage.graph import Source
from dray.process.tasks import end_tasks

_NEEDED: Final = frozenset({"delete", "list", "watch"})
# Nobody owns events but their age, and there are many.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
_DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_RBAC: Final = ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
# Large, and nobody else in the process reads them.
_METADATA_ONLY: Final = frozenset({("", "secrets"), ("", "configmaps"), *((RBAC_GROUP, plural) for plural in _RBAC)})
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "finalizers", "deletionTimestamp")
# A kind may be served, or cease to be, without a definition (aggregation), or a moment after its definition says so.
_LOOK_AGAIN: Final = 60.0
_LOOK_AFTER: Final = 3.0
_GATHER: Final = 0.02
_PATIENCE: Final = 30.0
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_logger = logging.getLogger(__name__)

Observer = Callable[[Source, Change], None]


class Monitors:
    """`observe` is told of every change of an object, `dropped` of a source that is no more, `changed` of news."""

    def __init__(
        self,
        environment: Environment,
        observe: Observer,
        *,
        dropped: Callable[[Source], None],
        changed: Callable[[], None],
    ) -> None:
        self._client = environment.client
        self._informers = environment.informers
        self._observe = observe
        self._dropped = dropped
        self._changed = changed
        self._sources: dict[tuple[str, str], Source] = {}
        self._started: dict[tuple[str, str], Informer] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._kinds: dict[tuple[str, str], ServedResource] = {}
        self._stale = asyncio.Event()
        self._discovered = asyncio.Event()

    def find(self, api_version: str, kind: str) -> ServedResource | None:
        """Returns the served resource of a kind, in any version."""
        return self._kinds.get((split_api_version(api_version)[0], kind))

    async def synced(self) -> None:
        """Returns when everything that was discovered first is in the caches, or refuses to be for long."""
        await self._discovered.wait()
        waiting = [asyncio.ensure_future(informer.synced()) for informer in self._started.values()]
        if not waiting:
            return
        try:
            _, late = await asyncio.wait(waiting, timeout=_PATIENCE)
            if late:
                _logger.warning("garbage collection begins without %d of %d resources", len(late), len(waiting))
        finally:
            for task in waiting:
                task.cancel()

    async def run(self) -> None:
        """Discovers the served resources again and again, and starts and stops informers, until it is cancelled."""
        failures = 0
        pause = _LOOK_AGAIN
        try:
            while True:
                try:
                    await self._refresh()
                except ClientError as error:
                    failures += 1
                    _logger.warning("cannot list the kinds of the server: %s", error)
                    await _RETRIES.pause(failures)
                    continue
                failures = 0
                self._discovered.set()
                pause = _LOOK_AFTER if await self._stale_within(pause) else _LOOK_AGAIN
        finally:
            await end_tasks(self._tasks.values())

    async def _stale_within(self, pause: float) -> bool:
        try:
            async with asyncio.timeout(pause):
                await self._stale.wait()
        except TimeoutError:
            return False
        # Definitions come in flocks.
        await asyncio.sleep(_GATHER)
        self._stale.clear()
        return True

    async def _refresh(self) -> None:
        found = await discover(self._client)
        resources = {(each.group, each.plural): each for each in found.preferred if each.group not in found.failed}
        for key, source in self._sources.items():
            if key[0] in found.failed:
                # What does not answer is still there, as far as anybody knows.
                resources[key] = source.resource
        known = {(each.group, each.kind): each for each in found.preferred}
        kept = {key: each for key, each in self._kinds.items() if key[0] in found.failed}
        news = self._kinds != (kinds := {**kept, **known})
        self._kinds = kinds
        for key in [key for key in self._sources if resources.get(key) != self._sources[key].resource]:
            await self._drop(key)
        for key, resource in resources.items():
            if key not in self._sources and key not in _IGNORED and resource.verbs >= _NEEDED:
                self._follow(key, resource)
        if news:
            self._changed()

    def _follow(self, key: tuple[str, str], resource: ServedResource) -> None:
        known = find_plural(resource.group, resource.version, resource.plural)
        if known is not None and key not in _METADATA_ONLY:
            informer = self._informers.of(known)
        else:
            informer = Informer(cast(ApiClient, _MetadataOnly(self._client)), resource)
            self._tasks[key] = asyncio.create_task(informer.run(), name=f"garbage: {resource.qualified}")
        source = self._sources[key] = Source(resource, informer.cache)
        self._started[key] = informer
        definitions = key == _DEFINITIONS

        def take(change: Change) -> None:
            if source.active:
                self._observe(source, change)
                if definitions and _redefines(change):
                    self._stale.set()

        informer.add_handler(take)

    async def _drop(self, key: tuple[str, str]) -> None:
        source = self._sources.pop(key)
        source.active = False
        self._started.pop(key, None)
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._dropped(source)


def _redefines(change: Change) -> bool:
    previous = change.previous
    if change.type != "MODIFIED" or previous is None:
        return True
    return any(previous.get(part) != change.object.get(part) for part in ("spec", "status"))


class _MetadataOnly:
    """A client for informers that keep only the metadata of objects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def list_all(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, limit: int = 500
    ) -> Object:
        listed = await self._client.list_all(resource, namespace=namespace, selection=selection, limit=limit)
        return {**listed, "items": [_stripped(item) for item in listed.get("items") or ()]}

    async def watch(
        self, resource: Resource, *, namespace: str = "", selection: Selection = EVERYTHING, resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        events = self._client.watch(
            resource, namespace=namespace, selection=selection, resource_version=resource_version
        )
        async with aclosing(events):
            async for event in events:
                yield WatchEvent(event.type, _stripped(event.object))


def _stripped(obj: Object) -> Object:
    metadata = metadata_of(obj)
    return {"metadata": {member: metadata[member] for member in _KEPT if member in metadata}}
