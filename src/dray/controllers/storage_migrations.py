"""The controller of StorageVersionMigrations: every object of a resource is written again, as it is.

The server then stores it in its present storage version. An object that was changed after the migration began needs
nothing more. A definition of a custom kind loses the stored versions that no object has any longer, unless the
definition changed meanwhile.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from dray.api.catalogue import built_in
from dray.api.cluster_kinds import MIGRATION_GROUP
from dray.api.objects import Object, conditions_of, int64, is_true, key_of, metadata_of, spec_of, status_of, version_of
from dray.client.cache import Change
from dray.client.clock import moment, timestamp
from dray.client.discovery import OptionalInformer, ServedResource, discover
from dray.client.errors import ApiError, Conflict, NotFound
from dray.client.interface import WriteOptions
from dray.controllers.environment import Environment, QueueController, named

_DEFINITIONS: Final = built_in("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_BY: Final = WriteOptions(field_manager="storage-version-migrator-controller")
# A resource that is defined at the same time may be served a little later.
_PATIENCE: Final = timedelta(minutes=1)
_LOOK_AGAIN: Final = 2.0
_RETRIED: Final = (429, 500, 502, 503, 504)


class StorageVersionMigrator(QueueController[str]):
    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers(
            "storage-version-migrator", self.reconcile, called=named("Migration"), count=2
        )
        self._migrations = OptionalInformer(
            environment.client, environment.informers, MIGRATION_GROUP, "storageversionmigrations"
        )
        self._migrations.add_handler(self._changed)

    async def run(self) -> None:
        await self._migrations.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._migrations.run())
            group.create_task(super().run())

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._workers.queue.add(change.key[1])

    async def reconcile(self, name: str) -> float | None:
        migration = self._migrations.cache.get(name)
        if migration is None or is_true(migration, "Succeeded") or is_true(migration, "Failed"):
            return None
        resource = await self._resource(migration)
        if resource is None:
            if self._time.now() - moment(metadata_of(migration)["creationTimestamp"]) < _PATIENCE:
                return _LOOK_AGAIN
            await self._end(migration, "Failed", "unable to obtain GVR from discovery")
        elif not status_of(migration).get("resourceVersion"):
            page = await self._client.list(resource, limit=1)
            await self._begin(migration, str(metadata_of(page)["resourceVersion"]))
        elif (latest := int64(status_of(migration)["resourceVersion"])) is None:
            await self._end(migration, "Failed", "status.resourceVersion is not the version of an object")
        else:
            await self._migrate(migration, resource, latest)
        return None

    async def _resource(self, migration: Object) -> ServedResource | None:
        wanted = spec_of(migration)["resource"]
        for resource in (await discover(self._client)).preferred:
            if (resource.group, resource.plural) == (wanted.get("group") or "", wanted["resource"]):
                return resource if {"list", "patch"} <= resource.verbs else None
        return None

    async def _begin(self, migration: Object, version: str) -> None:
        running = self._condition("Running", "MigrationRunning", "The migration is running")
        await self._write(migration, {"resourceVersion": version, "conditions": [running]})

    async def _migrate(self, migration: Object, resource: ServedResource, latest: int) -> None:
        definition = await self._definition(resource)
        found = (await self._client.list_all(resource))["items"]
        for obj in (each for each in found if version_of(each) <= latest):
            namespace, name = key_of(obj)
            body = {"metadata": {name: metadata_of(obj)[name] for name in ("uid", "resourceVersion")}}
            try:
                await self._client.patch(resource, name, body, namespace=namespace, options=_BY)
            except (Conflict, NotFound):
                continue
            except ApiError as error:
                if error.status in _RETRIED:
                    raise
                await self._end(migration, "Failed", f"{resource.plural} {namespace}/{name}: {error}")
                return
        if definition is not None:
            await self._forget_versions(definition)
        running = self._condition(
            "Running",
            "MigrationRunning",
            f"The migration is running, {len(found)} objects verified migrated",
        )
        await self._end(migration, "Succeeded", "Migration completed", running)

    async def _definition(self, resource: ServedResource) -> Object | None:
        try:
            return await self._client.get(_DEFINITIONS, resource.qualified)
        except NotFound:
            return None

    async def _forget_versions(self, definition: Object) -> None:
        stored = [version["name"] for version in spec_of(definition).get("versions") or () if version.get("storage")]
        if status_of(definition).get("storedVersions") == stored:
            return
        metadata = {name: metadata_of(definition)[name] for name in ("uid", "resourceVersion")}
        body = {"metadata": metadata, "status": {"storedVersions": stored}}
        try:
            await self._client.patch(_DEFINITIONS, key_of(definition)[1], body, subresource="status", options=_BY)
        except (Conflict, NotFound):
            # It changed meanwhile: what is stored now is not known.
            return

    async def _end(self, migration: Object, outcome: str, message: str, *others: Object) -> None:
        reason = f"StorageVersionMigration{outcome}"
        replaced = {other["type"] for other in others}
        kept = [condition for condition in conditions_of(migration) if condition.get("type") not in replaced]
        conditions = [*others, *kept, self._condition(outcome, reason, message)]
        await self._write(migration, {**status_of(migration), "conditions": conditions})

    async def _write(self, migration: Object, status: Object) -> None:
        assert self._migrations.version is not None
        await self._client.update_status(self._migrations.version, {**migration, "status": status}, options=_BY)

    def _condition(self, type_: str, reason: str, message: str) -> Object:
        now = timestamp(self._time.now())
        return {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
