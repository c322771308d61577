"""OptionalFeed: kinds that a server may not have, or not yet, read for the scheduler as soon as they are there.

They are those of other systems, and those of Kubernetes that not every server has. By some of them another system
decides where it is at work: these are read only where dray serves them itself. An event tells what of an object nobody
acts on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from dray.api.catalogue import KindVersion
from dray.api.objects import Object, annotations_of, mappings, text
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import OptionalInformer, ServedResource, may_list, served_version, serves
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.foreign_kinds import COMPUTE_CLASS, GROUPS, KAI_GROUP, KAI_QUEUE, KUEUE, KUEUE_TOPOLOGY, NODE_POOL
from dray.client.foreign_kinds import is_own as is_served_by_dray
from dray.client.informer import Informers
from dray.scheduling.front_ends import FRONT_ENDS, compute_class, jobs, kai, kueue_objects, topologies
from dray.scheduling.group_events import PRIORITY_CLASS
from dray.scheduling.scheduler import Scheduler
from dray.scheduling_loop.unheeded import Unheeded

_LOOK_AGAIN: Final = 30.0
_TOPOLOGY_OF_KUEUE: Final = f"{topologies.KIND}.{topologies.KUEUE}"

_PRIORITIZED: Final = (jobs.KIND, f"{kai.KIND}.{kai.API_GROUP}")
"""Kinds of groups that name the priority of their pods."""

Ignored = Callable[[Object], Iterable[str]]
SetAside = Callable[[KindVersion | ServedResource, Change, Exception], None]


@dataclass(frozen=True, slots=True)
class OptionalKind:
    group: str
    plural: str
    resource: ServedResource | None = None
    """None of a kind of Kubernetes: the newest version that is served is read."""
    owned: tuple[ServedResource, ...] = ()
    """It is read only where dray serves one of these itself."""
    beside: ServedResource | None = None
    """It is read only where this kind is served too, which it is needed for."""
    dispensable: bool = False
    """Whether it is left out of account without the right to read it."""
    quiet: bool = False
    """Whether its status means nothing: most changes are of the status that is written here."""
    ignored: Ignored = lambda _: ()
    """Members that nobody acts on."""
    told_everywhere: bool = False
    """Whether an object is told so also where another system serves the kind."""


def _foreign(
    resource: ServedResource,
    *owned: ServedResource,
    dispensable: bool = False,
    quiet: bool = False,
    ignored: Ignored = lambda _: (),
) -> OptionalKind:
    return OptionalKind(
        resource.group, resource.plural, resource, owned, dispensable=dispensable, quiet=quiet, ignored=ignored
    )


KINDS: Final[Mapping[str, OptionalKind]] = {
    "DeviceTaintRule": OptionalKind("resource.k8s.io", "devicetaintrules"),
    PRIORITY_CLASS: OptionalKind("scheduling.k8s.io", "priorityclasses", beside=KAI_GROUP, dispensable=True),
    **{
        name: OptionalKind(
            each.api_group,
            each.plural,
            GROUPS.get(name),
            (KUEUE_TOPOLOGY, KAI_GROUP) if name == jobs.KIND else (),
            ignored=each.ignored,
            told_everywhere=True,
        )
        for name, each in FRONT_ENDS.items()
    },
    **{
        name: _foreign(GROUPS[name], *([KUEUE_TOPOLOGY] if name == _TOPOLOGY_OF_KUEUE else []))
        for name in topologies.KINDS
    },
    **{
        name: _foreign(each, KUEUE["ClusterQueue"], quiet=True, ignored=partial(kueue_objects.ignored, name))
        for name, each in KUEUE.items()
    },
    KAI_QUEUE.kind: _foreign(KAI_QUEUE, KAI_QUEUE, quiet=True),
    COMPUTE_CLASS.kind: _foreign(COMPUTE_CLASS, dispensable=True, ignored=compute_class.ignored),
    NODE_POOL.kind: _foreign(NODE_POOL, dispensable=True),
}
"""By the name under which objects are given to the scheduler."""


async def is_ours(client: ApiClient, kind: OptionalKind) -> bool:
    """Whether it is dray that decides by the kind, which is served."""
    if kind.beside is not None and not await serves(client, kind.beside):
        return False
    return not kind.owned or any([await is_served_by_dray(client, each) for each in kind.owned])


async def readable(client: ApiClient, kind: OptionalKind) -> KindVersion | ServedResource | None:
    """In which version it is read; None where it is not there, or left to another system."""
    found: KindVersion | ServedResource | None = kind.resource
    if found is None:
        found = await served_version(client, kind.group, kind.plural)
    elif not await serves(client, found):
        return None
    return found if found is not None and await is_ours(client, kind) else None


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
        self._scheduler = scheduler
        self._now = now
        self._wake = wake
        self._set_aside = set_aside
        self._own: set[str] = set()
        """The kinds that dray serves itself."""
        self._refused: set[str] = set()
        """Those that may not be read."""
        self._started = False
        self.unheeded = Unheeded(events)
        self.informers: dict[str, OptionalInformer] = {}
        for name, kind in KINDS.items():
            if name not in without:
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

    async def run(self) -> None:
        """Until all of them are there, or it is cancelled."""
        while absent := [name for name, each in self.informers.items() if each.version is None]:
            await asyncio.sleep(_LOOK_AGAIN)
            groups = await self._api_groups()
            for name in absent:
                if KINDS[name].group in groups:
                    await self.informers[name].start()

    async def _api_groups(self) -> set[str]:
        """Those that the server has, in one answer for all kinds; none where it does not answer."""
        try:
            answer = await self._client.request("GET", "/apis")
        except ClientError:
            return set()
        return {text(each.get("name")) for each in mappings(answer.get("groups"))}

    def is_own(self, name: str) -> bool:
        """Whether dray serves the kind itself, so that no other system writes its status."""
        return name in self._own

    async def _admit(self, name: str, kind: OptionalKind) -> bool:
        """The kind is served: whether it is to be read."""
        state = self._scheduler.state
        if name == _TOPOLOGY_OF_KUEUE:
            # Pods of its groups start together also where Kueue lets them in. There are no objects of these.
            state.groups.served.add(topologies.KUEUE)
        if not await is_ours(self._client, kind) or not await self._may_read(name, kind):
            return False
        if kind.resource is not None and await is_served_by_dray(self._client, kind.resource):
            self._own.add(name)
        if name in FRONT_ENDS:
            state.groups.served.add(FRONT_ENDS[name].api_group)
        if name in topologies.KINDS:
            state.groups.topologies.served.add(topologies.KINDS[name])
        if name in state.queues.kinds:
            state.queues.kinds[name].served = True
        return True

    async def _may_read(self, name: str, kind: OptionalKind) -> bool:
        version = self.informers[name].version
        # One that is installed later holds up nobody.
        if version is None or not (kind.dispensable or self._started):
            return True
        if name not in self._refused and not await may_list(self._client, version):
            self._refused.add(name)
        return name not in self._refused

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
        if name not in _PRIORITIZED:
            return
        groups = self._scheduler.state.groups
        found = FRONT_ENDS[name].read(document, groups.topologies)
        for chosen in {each.priority_class for each in found if each.priority_class}:
            if groups.value_of(chosen) is None:
                yield f"priorityClassName: there is no PriorityClass {chosen}"


def _words(document: Object) -> object:
    """What is said by an object, without its status."""
    return document.get("spec"), document.get("value"), annotations_of(document)
