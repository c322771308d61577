"""Custom kinds, served from the write that defines them until their definition is gone.

Kinds can also be provided: they are served unless the store has a definition. Provided definitions are no objects, so a
definition can be installed later, and the existing objects stay.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from dray.api.intake import Place
from dray.api.objects import Object, condition_of
from dray.process.tasks import end_tasks
from dray.server import deletion, documents, status, updates
from dray.server.admission.custom_definitions import DEFINITIONS, GROUP, accepted_status
from dray.server.context import Context
from dray.server.custom import definitions, naming
from dray.server.custom.conversion import WebhookConverter
from dray.server.custom.definitions import CLEANUP_FINALIZER, CustomVersion
from dray.server.custom_resource import CustomResource
from dray.server.resources import Resource, key_prefix
from dray.store.interface import StoreError

_log = logging.getLogger("dray.server")
PLURAL = "customresourcedefinitions"


class CustomKinds:
    def __init__(self, context: Context, provided: Sequence[Object] = ()) -> None:
        self._context = context
        self._provided = {definition["metadata"]["name"]: definition for definition in map(self._accepted, provided)}
        self._purges: set[asyncio.Task[None]] = set()
        self.cleanup = CustomCleanup(context)
        context.observe(DEFINITIONS, self._observe)
        for definition in self._provided.values():
            self._serve(definition)
        for record in context.store.list(DEFINITIONS).records:
            self._serve(documents.decode(record.value))

    def resume(self) -> None:
        """Continues work that an earlier server did not finish, such as terminating definitions."""
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
        name = key.removeprefix(DEFINITIONS)
        plural, _, group = name.partition(".")
        self._context.registry.replace_custom(group, plural, [])
        self._purge(key_prefix(group, plural))
        if name in self._provided:
            self._serve(self._provided[name])
        self._reconsider(group)

    def _accepted(self, provided: Object) -> Object:
        definition = copy.deepcopy(provided)
        definitions.set_defaults(definition)
        definition["status"] = accepted_status(self._context, definition)
        return definition

    def _serve(self, definition: Object) -> None:
        versions = definitions.versions(definition) if naming.is_established(definition) else ()
        ending = bool(definition["metadata"].get("deletionTimestamp"))
        changed = (definition["metadata"].get("generation") or 1) > 1
        converter = self._converter(definition, versions)
        resources: list[Resource] = [
            CustomResource(version, versions, ending=ending, changed=changed, converter=converter)
            for version in versions
            if version.served
        ]
        spec = definition["spec"]
        self._context.registry.replace_custom(spec["group"], spec["names"]["plural"], resources)

    def _converter(self, definition: Object, versions: Sequence[CustomVersion]) -> WebhookConverter | None:
        webhook = definitions.conversion_webhook(definition)
        if webhook is None:
            return None
        known = {version.api_version: version for version in versions}
        return WebhookConverter(self._context.webhooks, self._context.worker, webhook, known, self._context.new_uid)

    def _reconsider(self, group: str) -> None:
        """Reconsiders other definitions of a group after one was deleted, because they may get its names."""
        resource = self._context.registry.find(GROUP, "v1", PLURAL)
        assert resource is not None

        def accept(definition: Object) -> None:
            definition["status"] = accepted_status(self._context, definition)

        async def reconsider(names: list[str]) -> None:
            for name in names:
                try:
                    await updates.modify(self._context, resource, Place(name=name), accept)
                except (status.ApiError, StoreError) as error:
                    _log.warning("the names of %s are not accepted yet: %s", name, error)

        found = (documents.decode(record.value) for record in self._context.store.list(DEFINITIONS).records)
        waiting = [
            definition["metadata"]["name"]
            for definition in found
            if definition["spec"]["group"] == group and _waits(definition)
        ]
        if waiting:
            self._begin(reconsider(waiting))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._purges.add(task)
        task.add_done_callback(self._purges.discard)

    def _purge(self, prefix: str) -> None:
        """Deletes the objects of a kind that is gone, so that a later kind of the same name does not have them."""
        records = self._context.store.list(prefix).records

        async def purge() -> None:
            for record in records:
                try:
                    await self._context.store.delete(record.key, expect=record.revision)
                except StoreError:
                    continue

        if records:
            self._begin(purge())


class CustomCleanup:
    """Deletes all objects of a kind, and then its definition.

    Deleting a definition only marks it: it gets a finalizer and the condition Terminating, and no object of its kind
    can be created any more. An object with a finalizer keeps the definition, so that its controller can still reach it.
    In Kubernetes a controller does this. `pause` is the number of seconds between two looks at the remaining objects.
    """

    def __init__(self, context: Context, *, pause: float = 1.0) -> None:
        self._context = context
        self.pause = pause
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def note(self, definition: Object) -> None:
        """Starts the cleanup of a definition that is being deleted, unless it runs already."""
        metadata = definition["metadata"]
        name = metadata["name"]
        if not metadata.get("deletionTimestamp") or CLEANUP_FINALIZER not in (metadata.get("finalizers") or ()):
            return
        if name not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._end(name), name=f"end of {name}")
            self._tasks[name] = task
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        await end_tasks(tasks)

    async def _end(self, name: str) -> None:
        while (record := self._context.store.get(DEFINITIONS + name)) is not None:
            try:
                if await self._empty(documents.decode(record.value)):
                    await self._release(name)
                    return
            except Exception:
                _log.exception("the objects of %s cannot be deleted yet", name)
            await asyncio.sleep(self.pause)

    async def _empty(self, definition: Object) -> bool:
        """Deletes the objects.

        Returns True if none is left. Each is deleted in its stored version, without conversion.
        """
        versions = [replace(version, storage=True) for version in definitions.versions(definition)]
        by_version = {version.api_version: CustomResource(version, [version]) for version in versions}
        resource = next(iter(by_version.values()))
        left = 0
        for record in self._context.store.list(resource.key_prefix).records:
            # A store in memory never waits: let other tasks run here.
            await asyncio.sleep(0)
            resource = by_version.get(documents.decode(record.value)["apiVersion"], resource)
            namespace, _, name = record.key.removeprefix(resource.key_prefix).rpartition("/")
            left += not await self._delete(resource, Place(namespace, name))
        return not left

    async def _delete(self, resource: CustomResource, place: Place) -> bool:
        options = deletion.DeleteOptions()
        try:
            return (await deletion.delete(self._context, resource, place, options, admitted=True))[1]
        except status.ApiError as error:
            return error.code == 404

    async def _release(self, name: str) -> None:
        resource = self._context.registry.find(GROUP, "v1", PLURAL)
        assert resource is not None
        try:
            await updates.modify(self._context, resource, Place(name=name), _let_go)
        except status.ApiError as error:
            if error.code != 404:
                raise


def _waits(definition: Object) -> bool:
    accepted = condition_of(definition, naming.NAMES_ACCEPTED)
    return accepted is not None and accepted.get("status") != "True"


def _let_go(definition: Object) -> None:
    metadata = definition["metadata"]
    metadata["finalizers"] = [f for f in metadata.get("finalizers") or () if f != CLEANUP_FINALIZER]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
