"""QueuesLeft: queues that the scheduler does not act on, with why, in the log and in an event about each of them.

Events are kept for an hour, so they are told again before that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dray.api.objects import Object, mappings, text, uid_of
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.discovery import ServedResource, serves
from dray.client.errors import ApiError, NotFound
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.scheduling_loop.optional_kinds import QUEUES

REASON: Final = "NotActedUpon"
_TELL_AGAIN: Final = 1800.0
_logger = logging.getLogger("dray.scheduler")


class QueuesLeft:
    def __init__(
        self, client: ApiClient, informers: Informers, events: EventRecorder, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._informers = informers
        self._events = events
        self._now = now
        self._why: dict[str, str] = {}
        """The reason why dray does not enforce a kind of queue, or not alone, by the name of the kind."""
        self._followed: dict[str, ServedResource] = {}
        self._told: dict[str, tuple[str, float]] = {}
        """The last message of an event about a queue, and its time, by queue uid."""

    async def leave(self, name: str, why: str, resource: ServedResource | None = None) -> None:
        """Stops enforcing queues of the kind, and says why in the log and in events. Raises ClientError."""
        resource = resource or QUEUES.get(name)
        if resource is None or not why or self._why.get(name) == why:
            return
        self._why[name] = why
        _logger.warning("%s.%s: %s", resource.plural, resource.group, why)
        try:
            await self._client.list(resource, limit=1)
        except ApiError as error:
            _logger.warning("events about this cannot be written: %s", error)
            return
        self._follow(name, resource)

    def also_at_work(self, name: str, why: str) -> None:
        """Reports that another system enforces the same queues as dray. `why` is empty if that has ended."""
        if not why:
            self._why.pop(name, None)
        elif name not in self._why:
            self._why[name] = f"both enforce the quota until dray scheduler is started again: {why}"
            _logger.warning("%s.%s: %s", QUEUES[name].plural, QUEUES[name].group, self._why[name])
            self._follow(name, QUEUES[name])

    def take(self, name: str) -> None:
        """Notes that dray enforces queues of the kind."""
        if self._why.pop(name, None) is not None:
            _logger.warning("%s.%s: quota is enforced from now on", QUEUES[name].plural, QUEUES[name].group)

    async def look_at_version(self, name: str, resource: ServedResource) -> None:
        """Leaves queues that the server has in other versions only. Raises ClientError."""
        other = await _other_version(self._client, resource)
        if other is not None:
            why = f"quota is not enforced: the server has version {other.version}, dray reads {resource.version}"
            await self.leave(name, why, other)

    def tell_again(self) -> None:
        for name, resource in self._followed.items():
            for document in self._informers.of(resource).cache:
                self._tell(name, resource, document)

    def _follow(self, name: str, resource: ServedResource) -> None:
        if self._followed.get(name) == resource:
            self.tell_again()
            return
        self._followed[name] = resource

        def take(change: Change) -> None:
            if change.type == "DELETED":
                self._told.pop(uid_of(change.object), None)
            else:
                self._tell(name, resource, change.object)

        self._informers.of(resource).add_handler(take)

    def _tell(self, name: str, resource: ServedResource, document: Object) -> None:
        why, uid, now = self._why.get(name), uid_of(document), self._now()
        told, at = self._told.get(uid, ("", 0.0))
        if why and (told != why or now > at + _TELL_AGAIN):
            self._told[uid] = why, now
            about = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
            self._events.warning(about, REASON, why)


async def _other_version(client: ApiClient, resource: ServedResource) -> ServedResource | None:
    """Returns the resource in another served version; None if the wanted version, or no version, is served."""
    try:
        group = await client.request("GET", f"/apis/{resource.group}")
    except NotFound:
        return None
    names = [text(version.get("version")) for version in mappings(group.get("versions"))]
    found = []
    for name in names:
        other = replace(resource, version=name)
        if await serves(client, other):
            found.append(other)
    return found[0] if found and resource not in found else None
