"""OptionalFeed: kinds that a server may not have, or not yet, read for the scheduler as soon as they are there.

A kind that is served at the start and may not be read is waited for. One that is installed later and may not be read is
named in `troubles`, and pods that name an object of it wait. An event tells what of an object nobody acts on, and which
queues are left to another system.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from dray.api.catalogue import KindVersion
from dray.api.objects import Object, annotations_of, mappings, text
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer, ServedResource, serves
from dray.client.errors import ApiError, ClientError
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES, WITHOUT_OBJECTS
from dray.scheduling.groups.unknown_kinds import ANSWER
from dray.scheduling.scheduler import Scheduler
from dray.scheduling_loop.kind_owners import WEBHOOKS, KindOwners
from dray.scheduling_loop.optional_kinds import KINDS, QUEUES
from dray.scheduling_loop.queue_systems.optional_kind import OptionalKind
from dray.scheduling_loop.queues_left import QueuesLeft
from dray.scheduling_loop.unheeded import Unheeded

_LOOK_AGAIN: Final = 30.0
# Between two looks, however many pods name kinds that are not known.
_PAUSE: Final = 1.0

SetAside = Callable[[KindVersion | ServedResource, Change, Exception], None]
_logger = logging.getLogger("dray.scheduler")


class OptionalFeed:
    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        events: EventRecorder,
        scheduler: Scheduler,
        now: Callable[[], float],
        wake: Callable[[], None],
        set_aside: SetAside,
        without: Container[str] = (),
    ) -> None:
        """`set_aside` is told of what could not be taken in; `without` are kinds that are not read."""
        self._client = client
        self._informers = informers
        self._scheduler = scheduler
        self._now = now
        self._wake = wake
        self._set_aside = set_aside
        self._owners = KindOwners(client, scheduler.options.queues, self._webhooks)
        self._own: set[str] = set()
        """The kinds whose status no other system writes."""
        self._refused: dict[str, str] = {}
        """Errors of kinds that were installed later and cannot be listed, by kind name."""
        self._started = False
        self._wanted = asyncio.Event()
        """Set when a pod names an object of a kind that is not known."""
        self._left = QueuesLeft(client, informers, events, now)
        self.unheeded = Unheeded(events)
        self.informers: dict[str, OptionalInformer] = {}
        for name, kind in KINDS.items():
            if name in without:
                scheduler.state.unknown_kinds.known.add(name)
            else:
                admit = partial(self._admit, name, kind)
                informer = OptionalInformer(
                    client, informers, kind.group, kind.plural, version=kind.resource, admit=admit
                )
                informer.add_handler(self._taking(name, kind, informer))
                self.informers[name] = informer

    async def start(self) -> None:
        """Returns when all is known that there is of the kinds that are served: never, where a right is wanting."""
        for each in self.informers.values():
            await each.start()
        self._started = True
        await self._look_at_versions()
        self._scheduler.state.unknown_kinds.wanted = self._wanted.set

    async def run(self) -> None:
        """Looks for kinds that are installed later, and for their owners, until the task is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN):
                    await self._wanted.wait()
            self._wanted.clear()
            asked = self._scheduler.state.unknown_kinds
            asked.begin()
            if await self._look():
                asked.end()
                self._scheduler.notify(ANSWER, self._now())
                self._wake()
            else:
                # The server did not answer: pods wait on.
                self._wanted.set()
            await self._look_at_owners()
            self._left.tell_again()
            await asyncio.sleep(_PAUSE)

    async def _look(self) -> bool:
        """Reads the kinds that have come to be served since; returns False where the server does not answer."""
        absent = [name for name, each in self.informers.items() if each.version is None]
        groups = await self._api_groups()
        if groups is None:
            return False
        for name in absent:
            if KINDS[name].group in groups:
                await self.informers[name].start()
        await self._look_at_versions(groups)
        return True

    def troubles(self) -> list[str]:
        """Returns an error for each kind that was installed later and cannot be listed."""
        return list(self._refused.values())

    async def _look_at_versions(self, groups: Container[str] | None = None) -> None:
        """Says of queues that the server has them in versions that dray does not read. `groups` are the API groups of
        the server, where they are known."""
        try:
            for name, resource in QUEUES.items():
                is_absent = name in self.informers and self.informers[name].version is None
                if is_absent and (groups is None or resource.group in groups):
                    await self._left.look_at_version(name, resource)
        except ClientError as error:
            _logger.debug("cannot ask in which versions queues are served: %s", error)

    async def _look_at_owners(self) -> None:
        """Says of queues that dray acts on that another system has come to be at work."""
        for name in QUEUES:
            informer = self.informers.get(name)
            if informer is not None and informer.version is not None:
                try:
                    verdict = await self._owners.verdict(name, KINDS[name])
                except ClientError:
                    continue
                self._left.also_at_work(name, verdict.why_not)

    async def _api_groups(self) -> set[str] | None:
        """Returns the API groups of the server with one request; None if the server does not answer."""
        try:
            answer = await self._client.request("GET", "/apis")
        except ClientError:
            return None
        return {text(each.get("name")) for each in mappings(answer.get("groups"))}

    async def _webhooks(self) -> Iterable[Object]:
        """Returns the webhook configurations once they are known. At the start it waits for the right to read them."""
        if not await serves(self._client, WEBHOOKS):
            return ()
        informer = self._informers.of(WEBHOOKS)
        if self._started and not informer.has_synced:
            # Raises if it may not be read; others that are installed later are not held up.
            await self._client.list(WEBHOOKS, limit=1)
        await informer.synced()
        return informer.cache

    def is_own(self, name: str) -> bool:
        """Whether no other system writes the status of the kind."""
        return name in self._own

    async def _admit(self, name: str, kind: OptionalKind) -> bool:
        """The kind is served: whether it is to be read."""
        state = self._scheduler.state
        state.unknown_kinds.known.add(name)
        if TOPOLOGIES.get(name) in WITHOUT_OBJECTS:
            # Pods of its groups start together also where the other system lets them in.
            state.groups.served.add(TOPOLOGIES[name])
        try:
            verdict = await self._owners.verdict(name, kind)
            if not verdict.acts:
                await self._left.leave(name, verdict.why_not)
                return False
            if self._started and (version := self.informers[name].version) is not None:
                await self._client.list(version, limit=1)
            writes_status = await self._owners.writes_status(kind)
        except ApiError as error:
            if not (self._started and error.is_forbidden):
                raise
            self._refuse(name, kind, error)
            return False
        self._refused.pop(name, None)
        self._left.take(name)
        if writes_status:
            self._own.add(name)
        if name in TOPOLOGIES:
            state.groups.topologies.served.add(TOPOLOGIES[name])
        self._heed(name)
        return True

    def _heed(self, name: str) -> None:
        """Makes pods that name an object of the kind wait for that object."""
        state = self._scheduler.state
        if name in FRONT_ENDS:
            state.groups.served.add(FRONT_ENDS[name].api_group)
        if name in state.queues.kinds:
            state.queues.serve(name)

    def _refuse(self, name: str, kind: OptionalKind, error: ApiError) -> None:
        """A kind was installed that may not be read: pods that name an object of it wait, others do not."""
        if name not in self._refused:
            _logger.warning("cannot list %s.%s: %s; pods that need one wait", kind.plural, kind.group, error)
        self._refused[name] = f"cannot list {kind.plural}.{kind.group}: {error}"
        self._heed(name)

    def _taking(self, name: str, kind: OptionalKind, informer: OptionalInformer) -> Callable[[Change], None]:
        def take(change: Change) -> None:
            gone, before = change.type == "DELETED", change.previous
            if kind.quiet and not gone and before is not None and _words(before) == _words(change.object):
                return
            try:
                (self._scheduler.remove if gone else self._scheduler.put)(name, change.object, self._now())
                self._tell(name, kind, informer, change)
            except Exception as error:
                # One that cannot be read keeps nobody from the others.
                assert informer.version is not None
                self._set_aside(informer.version, change, error)
            self._wake()

        return take

    def _tell(self, name: str, kind: OptionalKind, informer: OptionalInformer, change: Change) -> None:
        if change.type == "DELETED":
            self.unheeded.forget(change.object)
        elif informer.version is not None and (kind.told_everywhere or name in self._own):
            ignored = (*kind.ignored(change.object), *self._unknown(name, change.object))
            self.unheeded.warn(informer.version, change.object, ignored)

    def _unknown(self, name: str, document: Object) -> Iterator[str]:
        """A PriorityClass that a group names and that does not exist."""
        if name not in FRONT_ENDS or not FRONT_ENDS[name].has_priority:
            return
        groups = self._scheduler.state.groups
        found = FRONT_ENDS[name].read(document, groups.topologies)
        for chosen in {each.priority_class for each in found if each.priority_class}:
            if groups.value_of(chosen) is None:
                yield f"priorityClassName: there is no PriorityClass {chosen}"


def _words(document: Object) -> object:
    """Returns the parts of an object that matter here: spec, value and annotations."""
    return document.get("spec"), document.get("value"), annotations_of(document)
