"""Custom kinds, served from the write that defines them until their definition is gone."""

from __future__ import annotations

import asyncio

from dray.api.objects import Object
from dray.server import documents
from dray.server.context import Context
from dray.server.custom import definitions
from dray.server.custom_cleanup import DEFINITIONS, CustomCleanup
from dray.server.custom_resource import CustomResource
from dray.server.resources import Resource, key_prefix
from dray.store.interface import StoreError


class CustomKinds:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._purges: set[asyncio.Task[None]] = set()
        self.cleanup = CustomCleanup(context)
        context.observe(DEFINITIONS, self._observe)
        for record in context.store.list(DEFINITIONS).records:
            self._serve(documents.decode(record.value))

    def resume(self) -> None:
        """Takes up what a server before this one did not finish."""
        for record in self._context.store.list(DEFINITIONS).records:
            self.cleanup.note(documents.decode(record.value))

    async def close(self) -> None:
        await self.cleanup.close()
        await asyncio.gather(*self._purges, return_exceptions=True)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is not None:
            self._serve(obj)
            self.cleanup.note(obj)
            return
        plural, _, group = key.removeprefix(DEFINITIONS).partition(".")
        self._context.registry.replace_custom(group, plural, [])
        self._purge(key_prefix(group, plural))

    def _serve(self, definition: Object) -> None:
        versions = definitions.versions(definition)
        ending = bool(definition["metadata"].get("deletionTimestamp"))
        resources: list[Resource] = [
            CustomResource(version, versions, ending=ending) for version in versions if version.served
        ]
        spec = definition["spec"]
        self._context.registry.replace_custom(spec["group"], spec["names"]["plural"], resources)

    def _purge(self, prefix: str) -> None:
        """Deletes the objects of a kind that is no more; those of a kind that takes its name later are others."""
        records = self._context.store.list(prefix).records

        async def purge() -> None:
            for record in records:
                try:
                    await self._context.store.delete(record.key, expect=record.revision)
                except StoreError:
                    continue

        if records:
            task = asyncio.get_running_loop().create_task(purge())
            self._purges.add(task)
            task.add_done_callback(self._purges.discard)
