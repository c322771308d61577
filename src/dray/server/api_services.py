"""APIServices of what the server itself serves: one for each version of a group, built-in or custom.

Those of built-in groups are made once and stay as their owner has them; those of custom kinds come and go with what is
served. `unregistered` tells which are missing. The APIService of metrics is made by a metrics server, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from dray.api.cluster_kinds import REGISTRATION_GROUP
from dray.api.objects import Object, labels_of
from dray.process.tasks import end_tasks
from dray.server import bootstrap, discovery, documents, resource_metrics
from dray.server.admission.custom_definitions import DEFINITIONS
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix
from dray.store.interface import StoreError

_SERVICES: Final = key_prefix(REGISTRATION_GROUP, "apiservices")
_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"
_CORE_PRIORITY, _GROUP_PRIORITY, _VERSION_PRIORITY = 18_000, 17_000, 15
_CUSTOM_PRIORITY, _CUSTOM_VERSION = 1000, 100


class ApiServices:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self._changed = False
        self._registered = False
        context.observe(DEFINITIONS, self._observe)
        context.observe(_SERVICES, self._observe_service)

    async def start(self) -> None:
        await self._settle()

    async def close(self) -> None:
        await end_tasks([self._task] if self._task is not None else [])

    def unregistered(self) -> list[str]:
        """Returns the APIServices that are missing since the start; later deletions do not count."""
        missing = [] if self._registered else self._missing()
        self._registered = not missing
        return missing

    def _missing(self) -> list[str]:
        """Returns the served versions that have no APIService."""
        return [served[0] for served in self._served() if self._context.store.get(_SERVICES + served[0]) is None]

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        self._changed = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="API services")

    def _observe_service(self, resource: Resource, key: str, obj: Object | None) -> None:
        if obj is None:
            self._observe(resource, key, obj)

    async def _keep(self) -> None:
        while self._changed:
            self._changed = False
            # Let the registry, which observes the same write, update first.
            await asyncio.sleep(0)
            await self._settle()

    async def _settle(self) -> None:
        served = {served[0]: _service(*served) for served in self._served()}
        for name in self._missing():
            await bootstrap.create(self._context, served[name])
        for record in self._context.store.list(_SERVICES).records:
            name = record.key.removeprefix(_SERVICES)
            if name not in served and labels_of(documents.decode(record.value)).get(_MANAGED) == "true":
                await self._remove(record.key)

    async def _remove(self, key: str) -> None:
        resource = self._context.registry.find(REGISTRATION_GROUP, "v1", "apiservices")
        assert resource is not None
        try:
            await self._context.store.delete(key)
        except StoreError:
            return
        self._context.notify(resource, key, None)

    def _served(self) -> Iterator[tuple[str, str, str, int, bool]]:
        """Yields name, group, version, position of the version in its group, and True for built-in groups."""
        registry = self._context.registry
        for group in discovery.group_names(registry):
            if group == resource_metrics.GROUP:
                continue
            built_in = group in discovery.built_in_groups(registry)
            for position, version in enumerate(discovery.versions(registry, group)):
                yield f"{version}.{group}", group, version, position, built_in


def _service(name: str, group: str, version: str, position: int, built_in: bool) -> Object:
    least = (_GROUP_PRIORITY if group else _CORE_PRIORITY) if built_in else _CUSTOM_PRIORITY
    first = _VERSION_PRIORITY if built_in else _CUSTOM_VERSION
    return {
        "apiVersion": f"{REGISTRATION_GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": name, "labels": {_MANAGED: "onstart" if built_in else "true"}},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": least,
            "versionPriority": max(1, first - position),
        },
    }
