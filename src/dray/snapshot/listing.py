"""Lists what a cluster has of everything that matters to the scheduler, and notes what could not be read.

Queues that are left to another system are listed too where somebody wants to see them. `fill` gives what was listed to
a scheduler's core, as the watches of a running scheduler would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dray.api.objects import Object
from dray.process.memory import loading
from dray.scheduling.attempts.group_events import PRIORITY_CLASS
from dray.scheduling.cluster import node_classes
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES
from dray.scheduling.groups.unknown_kinds import named_kinds
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.client.interface import Resource
    from dray.scheduling.scheduler import Scheduler

_DEVICES: Final = "resource.k8s.io/v1"
REQUIRED: Final = {
    "Namespace": "v1",
    "Node": "v1",
    "ResourceSlice": _DEVICES,
    "DeviceClass": _DEVICES,
    "ResourceClaimTemplate": _DEVICES,
    "PodDisruptionBudget": "policy/v1",
    "ResourceClaim": _DEVICES,
    "Pod": "v1",
}
"""Kinds that every server has, with their versions."""
_LAST: Final = ("ResourceClaim", "Pod")
"""Kinds that are given to a scheduler after all others, in this order."""
_DISPENSABLE: Final = (
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "PodDisruptionBudget",
    *FRONT_ENDS,
    *TOPOLOGIES,
    *kueue.KINDS,
    kai_queue.KIND,
    *node_classes.KINDS,
    PRIORITY_CLASS,
    "Namespace",
    "ResourceClaimTemplate",
)


Unreadable = Callable[[str, Object, Exception], None]
"""Is told of an object that a scheduler cannot read: its kind, the object, and what went wrong."""


@dataclass(slots=True)
class Listed:
    objects: dict[str, list[Object]] = field(default_factory=dict)
    """The objects of each kind."""
    unread: dict[str, str] = field(default_factory=dict)
    """The answer of the server for each kind that it has and refuses to list."""
    left: dict[str, str] = field(default_factory=dict)
    """The reason for each kind that the scheduler does not act on."""
    doubts: list[str] = field(default_factory=list)
    """Questions about the system that acts on queues which the server did not answer."""

    def unread_for(self, pod: Object) -> dict[str, str]:
        """Of the kinds that the pod names an object of, those that could not be read, with what the server said."""
        return {kind: self.unread[kind] for kind in _needed_by(pod) if kind in self.unread}

    def notes_for(self, pod: Object) -> list[str]:
        """Returns notes on queue and group of the pod: what is unknown, and what has no effect."""
        named = list(named_kinds(pod))
        found = dict.fromkeys(self.left[kind] for kind in named if kind in self.left)
        if named and any(kind in self.objects or kind in self.left for kind in named):
            found.update(dict.fromkeys(self.doubts))
        absent = [kind for kind in named if not any(kind in each for each in (self.objects, self.unread, self.left))]
        if absent:
            found[f"the server has no {' and '.join(absent)}: the queue or group of the pod has no effect"] = None
        return list(found)


def _needed_by(pod: Object) -> Iterator[str]:
    """The kinds that decide on the queue, the group and the class of a pod."""
    for kind in named_kinds(pod):
        yield from kueue.KINDS if kind == "LocalQueue" else (kind,)


async def listed(client: ApiClient, *, with_left: bool = False) -> Listed:
    """`with_left` if kinds are listed too that the scheduler leaves to another system."""
    from dray.client.errors import ApiError

    found = Listed()
    for name, served in (await wanted_kinds(client, found, with_left=with_left)).items():
        try:
            with loading():
                found.objects[name] = (await client.list_all(served)).get("items") or []
        except ApiError as error:
            # Those who may look at pods and claims are often not allowed to look at these.
            if not (error.is_forbidden and name in _DISPENSABLE):
                raise
            found.unread[name] = str(error)
    return found


async def wanted_kinds(client: ApiClient, found: Listed, *, with_left: bool) -> dict[str, Resource]:
    """Returns what to list, by the kind under which the scheduler receives the objects; notes in `found` why not."""
    from dray.api.catalogue import built_in
    from dray.client.discovery import serves
    from dray.scheduling.core.options import QueueMode
    from dray.scheduling_loop import volumes
    from dray.scheduling_loop.kind_owners import KindOwners
    from dray.scheduling_loop.optional_kinds import KINDS

    wanted: dict[str, Resource] = {name: built_in(version, name) for name, version in REQUIRED.items()}

    async def configurations() -> Iterable[Object]:
        return await _webhooks(client, found)

    owners = KindOwners(client, QueueMode.AUTO, configurations)
    for name, kind in KINDS.items():
        readable, why_not = await owners.readable(name, kind)
        if why_not:
            found.left[name] = why_not
        if readable is not None or (why_not and with_left):
            resource = readable or kind.resource
            assert resource is not None
            wanted[name] = resource
    optional: dict[str, Resource] = {
        "PersistentVolumeClaim": volumes.CLAIMS,
        "PersistentVolume": volumes.PERSISTENT_VOLUMES,
        "StorageClass": volumes.STORAGE_CLASSES,
    }
    return wanted | {name: kind for name, kind in optional.items() if await serves(client, kind)}


async def _webhooks(client: ApiClient, found: Listed) -> list[Object]:
    """Empty also where they may not be read, which is noted."""
    from dray.client.discovery import serves
    from dray.client.errors import ApiError
    from dray.scheduling_loop.kind_owners import WEBHOOKS

    if not await serves(client, WEBHOOKS):
        return []
    try:
        return (await client.list_all(WEBHOOKS)).get("items") or []
    except ApiError as error:
        if not error.is_forbidden:
            raise
        doubt = f"cannot tell whether Kueue or KAI runs in the cluster: {error}"
        if doubt not in found.doubts:
            found.doubts.append(doubt)
        return []


def fill(
    scheduler: Scheduler,
    objects: Mapping[str, Sequence[Object]],
    now: float,
    unreadable: Unreadable,
    *,
    adopting: bool = False,
) -> None:
    """Gives the objects of each kind to the scheduler; `adopting` if pods of all schedulers count as its own."""
    state = scheduler.state
    apis = {kind: each.api_group for kind, each in FRONT_ENDS.items()} | dict(TOPOLOGIES)
    state.groups.served.update(api for kind, api in apis.items() if kind in objects)
    state.groups.topologies.served.update(api for kind, api in TOPOLOGIES.items() if kind in objects)
    state.volumes.known = "PersistentVolumeClaim" in objects
    state.volumes.volumes_known = "PersistentVolume" in objects and "StorageClass" in objects
    for kind in objects.keys() & state.queues.kinds.keys():
        # Also where there is no object of it: then a pod waits that names one.
        state.queues.serve(kind)
    for kind in (
        *sorted(objects.keys() - {"ResourceClaimTemplate", *_LAST}),
        *(each for each in _LAST if each in objects),
    ):
        given = objects[kind]
        if adopting and kind == "Pod":
            given = [{**each, "spec": {**each["spec"], "schedulerName": scheduler.options.name}} for each in given]
        with loading():
            put_readable(scheduler, kind, given, now, unreadable)


def put_readable(
    scheduler: Scheduler, kind: str, objects: Iterable[Object], now: float, unreadable: Unreadable
) -> None:
    """Gives objects to a scheduler; an object that it cannot read is left out, as a running scheduler does."""
    for each in objects:
        try:
            scheduler.put(kind, each, now)
        except Exception as error:
            unreadable(kind, each, error)
