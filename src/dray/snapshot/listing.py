"""Lists the objects of a cluster that the scheduler reads, and notes which kinds could not be read.

Queues that another system acts on are listed only if the caller asks for them. `fill` puts the listed objects into a
scheduler, as the watches of a running scheduler do.
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
"""Kinds that are put into a scheduler after all others, in this order."""
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
"""Gets an object that a scheduler cannot read: its kind, the object, and the error."""


@dataclass(slots=True)
class Listed:
    """The listed objects of a cluster, and the kinds that are missing from them."""

    objects: dict[str, list[Object]] = field(default_factory=dict)
    """The objects of each kind."""
    unread: dict[str, str] = field(default_factory=dict)
    """The answer of the server for each kind that it has and refuses to list."""
    left: dict[str, str] = field(default_factory=dict)
    """The reason for each kind that the scheduler does not act on."""
    doubts: list[str] = field(default_factory=list)
    """Questions about the system that acts on queues which the server did not answer."""

    def unread_for(self, pod: Object) -> dict[str, str]:
        """Returns the kinds that the pod refers to and that could not be read, with the answers of the server."""
        return {kind: self.unread[kind] for kind in _needed_by(pod) if kind in self.unread}

    def notes_for(self, pod: Object) -> list[str]:
        """Returns notes on queue and group of the pod: what is unknown, and what has no effect."""
        named = list(named_kinds(pod))
        found = dict.fromkeys(self.left[kind] for kind in named if kind in self.left)
        if named and any(kind in self.objects or kind in self.left for kind in named):
            found.update(dict.fromkeys(self.doubts))
        absent = [kind for kind in named if not any(kind in kinds for kinds in (self.objects, self.unread, self.left))]
        if absent:
            found[f"the server has no {' and '.join(absent)}: the queue or group of the pod has no effect"] = None
        return list(found)


def _needed_by(pod: Object) -> Iterator[str]:
    """Yields the kinds on which the queue, the group and the class of a pod depend."""
    for kind in named_kinds(pod):
        yield from kueue.KINDS if kind == "LocalQueue" else (kind,)


async def listed(client: ApiClient, *, with_left: bool = False) -> Listed:
    """Lists a cluster; `with_left` also lists kinds that the scheduler leaves to another system."""
    from dray.client.errors import ApiError

    found = Listed()
    for name, served in (await wanted_kinds(client, found, with_left=with_left)).items():
        try:
            with loading():
                found.objects[name] = (await client.list_all(served)).get("items") or []
        except ApiError as error:
            # Users who may read pods and claims often may not read these kinds.
            if not (error.is_forbidden and name in _DISPENSABLE):
                raise
            found.unread[name] = str(error)
    return found


async def wanted_kinds(client: ApiClient, found: Listed, *, with_left: bool) -> dict[str, Resource]:
    """Returns the resources to list by kind, and notes in `found` why the scheduler does not act on other kinds."""
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
    """Returns the webhook configurations; notes in `found` if they may not be read, and returns none then."""
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
    """Puts objects into a scheduler; with `adopting` it treats the pods of all schedulers as its own."""
    state = scheduler.state
    apis = {kind: front_end.api_group for kind, front_end in FRONT_ENDS.items()} | dict(TOPOLOGIES)
    state.groups.served.update(api for kind, api in apis.items() if kind in objects)
    state.groups.topologies.served.update(api for kind, api in TOPOLOGIES.items() if kind in objects)
    state.volumes.known = "PersistentVolumeClaim" in objects
    state.volumes.volumes_known = "PersistentVolume" in objects and "StorageClass" in objects
    for kind in objects.keys() & state.queues.kinds.keys():
        # A kind without objects is served too, so that a pod waits which names one.
        state.queues.serve(kind)
    for kind in (
        *sorted(objects.keys() - {"ResourceClaimTemplate", *_LAST}),
        *(kind for kind in _LAST if kind in objects),
    ):
        given = objects[kind]
        if adopting and kind == "Pod":
            given = [{**pod, "spec": {**pod["spec"], "schedulerName": scheduler.options.name}} for pod in given]
        with loading():
            put_readable(scheduler, kind, given, now, unreadable)


def put_readable(
    scheduler: Scheduler, kind: str, objects: Iterable[Object], now: float, unreadable: Unreadable
) -> None:
    """Puts objects into a scheduler; skips an object that it cannot read, as a running scheduler does."""
    for obj in objects:
        try:
            scheduler.put(kind, obj, now)
        except Exception as error:
            unreadable(kind, obj, error)
