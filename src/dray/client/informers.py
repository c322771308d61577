"""Shared informers of a process: one for each resource, however many parts read it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from dray.client.api import ApiClient
from dray.client.cache import Index
from dray.client.informer import Informer
from dray.client.interface import Resource


class Informers:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._informers: dict[tuple[str, str, str], Informer] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def of(self, resource: Resource, indexes: Mapping[str, Index] | None = None) -> Informer:
        """The informer of the resource, in all namespaces, with these indexes added to those it has.

        It is started at once if the others run already.
        """
        key = (resource.group, resource.version, resource.plural)
        informer = self._informers.get(key)
        if informer is None:
            informer = self._informers[key] = Informer(self._client, resource)
            if self._tasks is not None:
                self._tasks.create_task(informer.run(), name=f"informer of {resource.plural}")
        for name, index in (indexes or {}).items():
            informer.cache.add_index(name, index)
        return informer

    def forget(self, subscriber: str) -> None:
        """Removes the handlers that were added on its behalf."""
        for informer in self._informers.values():
            informer.forget(subscriber)

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for (_, _, plural), informer in self._informers.items():
                self._tasks.create_task(informer.run(), name=f"informer of {plural}")
            # More of them may be asked for later, even if there is none yet.
            await asyncio.Event().wait()

    def troubles(self) -> list[str]:
        """What is not known as it should be, and why."""
        return [informer.trouble for informer in self._informers.values() if informer.trouble]

    async def synced(self) -> None:
        """Returns when each has its first list."""
        for informer in list(self._informers.values()):
            await informer.synced()
