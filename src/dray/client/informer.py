"""An informer: keeps a cache current by list and watch, and lists again when its resource version is too old.

Handlers are called in order, one change at a time, after the cache holds it; they are meant to put keys into a work
queue, not to work. A handler that raises is logged and stays. Whatever happens between two lists is seen as the
difference between them: nothing that is true now is missed, things that were true in between may be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final

from dray.api.objects import Object, key_of, mapping, metadata_of
from dray.client.api import ApiClient
from dray.client.cache import Cache, Change, Index
from dray.client.errors import ApiError, ClientError, Garbled
from dray.client.interface import EVERYTHING, Resource, Selection, WatchEvent
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.client.retries import Backoff, Retries

Handler = Callable[[Change], None]

SUBSCRIBER: Final = ContextVar("subscriber", default="")
"""The subscriber of handlers that are added in this context; all handlers of a subscriber can be removed together."""

# A watch that lasts this long without events is working.
_LASTING: Final = 60.0
_RETRIES: Final = Retries(backoff=Backoff(first=0.5, longest=30.0))
_logger = logging.getLogger(__name__)


class Informer:
    def __init__(
        self,
        client: ApiClient,
        resource: Resource,
        *,
        namespace: str = "",
        selection: Selection = EVERYTHING,
        indexes: Mapping[str, Index] | None = None,
        retries: Retries = _RETRIES,
    ) -> None:
        self.cache = Cache(indexes)
        self.resource_version = ""
        """The resource version of the cache."""
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self._selection = selection
        self._retries = retries
        self._handlers: list[tuple[str, Handler]] = []
        """Handlers, each with its subscriber."""
        self._listed: list[tuple[str, Callable[[], None]]] = []
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._doing = "list"
        self._trouble = ("", "")
        """The failed operation and its error."""
        self._throttled = ThrottledLog(_logger)

    @property
    def has_synced(self) -> bool:
        """Returns True if the first list is in the cache."""
        return self._synced.is_set()

    async def synced(self) -> None:
        await self._synced.wait()

    async def answered(self) -> None:
        """Returns when the first list is in the cache, or the server has refused it; then `trouble` says why."""
        await self._answered.wait()

    @property
    def trouble(self) -> str:
        """Returns why the cache is not up to date with the server; empty if it is."""
        verb, reason = self._trouble
        if verb:
            return f"cannot {verb} {self._kind}: {reason}"
        return "" if self._synced.is_set() else f"{self._kind} are being listed"

    @property
    def _kind(self) -> str:
        return f"{self._resource.plural}.{self._resource.group}" if self._resource.group else self._resource.plural

    def add_handler(self, handler: Handler) -> None:
        """Adds a handler, which is called for each existing object and then for every change."""
        self._handlers.append((SUBSCRIBER.get(), handler))
        for value in self.cache:
            change = Change("ADDED", key_of(value), value, None)
            try:
                handler(change)
            except Exception:
                self._failed(change)

    def on_list(self, handler: Callable[[], None]) -> None:
        """Adds a handler that is called when the cache has been filled from a list: missing objects do not exist."""
        self._listed.append((SUBSCRIBER.get(), handler))

    def forget(self, subscriber: str) -> None:
        """Removes the handlers of a subscriber."""
        self._handlers = [added for added in self._handlers if added[0] != subscriber]
        self._listed = [added for added in self._listed if added[0] != subscriber]

    async def run(self) -> None:
        """Lists and watches until it is cancelled."""
        failures = 0
        while True:
            asked = 0.0
            try:
                await self._list()
                failures = await self._watch(failures)
            except ApiError as error:
                if not error.is_gone:
                    self._complain(error)
                asked = error.retry_after
            except ClientError as error:
                self._complain(error)
            failures += 1
            await self._retries.pause(failures, asked)

    def _complain(self, error: ClientError) -> None:
        verb = self._doing
        self._trouble = verb, str(error)
        forbidden = isinstance(error, ApiError) and error.is_forbidden
        if forbidden:
            self._answered.set()
        advice = f"; it waits for the right to {verb} {self._kind}" if forbidden else ""
        self._throttled.warning(cause_of(error), "cannot %s %s: %s%s", verb, self._kind, error, advice)

    async def _list(self) -> None:
        self._doing = "list"
        listed = await self._client.list_all(self._resource, namespace=self._namespace, selection=self._selection)
        self._tell(self.cache.replace(_objects(listed)))
        self.resource_version = str(metadata_of(listed).get("resourceVersion") or "")
        for _, handler in self._listed:
            try:
                handler()
            except Exception:
                _logger.exception("a handler failed on the list of %s", self._resource.plural)
        self._synced.set()
        self._answered.set()
        if self._trouble[0] == self._doing:
            self._trouble = ("", "")
        self._doing = "watch"

    async def _watch(self, failures: int) -> int:
        """Watches until a new list is needed. Returns the failures since the last event, or since a long watch."""
        loop = asyncio.get_running_loop()
        lasting = loop.time() + _LASTING
        events = self._client.watch(
            self._resource,
            namespace=self._namespace,
            selection=self._selection,
            resource_version=self.resource_version,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    failures = 0
                    self._trouble = ("", "")
                    self._take(event)
        except ApiError as error:
            if not (error.is_gone or error.is_ahead):
                raise
        return 0 if loop.time() > lasting else failures

    def _take(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self._tell(self.cache.remove(key_of(event.object), event.object))
        elif event.type != "BOOKMARK":
            self._tell(self.cache.put(event.object))
        self.resource_version = event.resource_version or self.resource_version

    def _tell(self, changes: Iterable[Change]) -> None:
        for change in changes:
            for _, handler in self._handlers:
                try:
                    handler(change)
                except Exception:
                    self._failed(change)

    def _failed(self, change: Change) -> None:
        place = "/".join(part for part in change.key if part)
        _logger.exception("a handler of %s failed on %s %s", self._resource.plural, change.type, place)


def _objects(listed: Object) -> list[Object]:
    """Returns the objects of a list. Raises Garbled for anything else.

    The `{}` of a proxy would count as an empty list, and everything that depends on the objects would be cleaned up.
    """
    items, metadata = listed.get("items"), listed.get("metadata")
    is_list = str(listed.get("kind") or "").endswith("List") and isinstance(metadata, dict)
    if not is_list or not isinstance(items, list | None) or not all(map(_is_object, items or ())):
        raise Garbled(f"the answer is not a list of objects: {str(listed)[:200]}")
    return items or []


def _is_object(item: Any) -> bool:
    return isinstance(item, dict) and bool(mapping(item.get("metadata")).get("name"))


class Informers:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._informers: dict[tuple[str, str, str, str], Informer] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def of(self, resource: Resource, indexes: Mapping[str, Index] | None = None, *, fields: str = "") -> Informer:
        """Returns the informer of the resource in all namespaces, and adds the indexes to it.

        A field selector has an informer of its own. The informer is started at once if the others run already.
        """
        key = (resource.group, resource.version, resource.plural, fields)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(self._client, resource, selection=Selection(fields=fields))
            if self._tasks is not None:
                self._tasks.create_task(informer.run(), name=f"informer of {resource.plural}")
        for name, index in (indexes or {}).items():
            informer.cache.add_index(name, index)
        return informer

    def forget(self, subscriber: str) -> None:
        """Removes the handlers of a subscriber from all informers."""
        for informer in self._informers.values():
            informer.forget(subscriber)

    async def run(self) -> None:
        """Runs all informers until it is cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for (_, _, plural, _), informer in self._informers.items():
                self._tasks.create_task(informer.run(), name=f"informer of {plural}")
            # More informers may be added later.
            await asyncio.Event().wait()

    def troubles(self) -> list[str]:
        """Returns the problems of all informers."""
        return [informer.trouble for informer in self._informers.values() if informer.trouble]

    async def synced(self) -> None:
        """Returns when each informer has its first list."""
        for informer in list(self._informers.values()):
            await informer.synced()
