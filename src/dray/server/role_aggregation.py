"""ClusterRoles with an aggregationRule show the rules that they collect from others.

The policy works the rules out by itself, so that what was granted or taken away holds at once; here they are written
into the object for people to read, shortly after any ClusterRole changed. In Kubernetes a controller does this.
"""

from __future__ import annotations

import asyncio
import logging

from dray.api.catalogue import RBAC_GROUP
from dray.api.intake import Place
from dray.api.objects import Object
from dray.server import documents, status, updates
from dray.server.context import Context
from dray.server.resources import Resource, key_prefix

_log = logging.getLogger("dray.server")
_CLUSTER_ROLES = key_prefix(RBAC_GROUP, "clusterroles")


class RoleAggregation:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._started = False
        self._changed = False
        self._task: asyncio.Task[None] | None = None
        context.observe(_CLUSTER_ROLES, self._observe)

    async def start(self) -> None:
        """Updates the rules of every aggregated role, and keeps them up to date."""
        self._started = True
        await self._settle()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _observe(self, resource: Resource, key: str, obj: Object | None) -> None:
        self._changed = True
        if self._started and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._keep(), name="role aggregation")

    async def _keep(self) -> None:
        while self._changed:
            try:
                await self._settle()
            except status.ApiError as error:
                _log.warning("a ClusterRole cannot be aggregated: %s", error.message)

    async def _settle(self) -> None:
        self._changed = False
        resource = self._context.registry.find(RBAC_GROUP, "v1", "clusterroles")
        assert resource is not None
        for record in self._context.store.list(_CLUSTER_ROLES).records:
            if b'"aggregationRule"' in record.value and self._is_stale(documents.decode(record.value)):
                place = Place(name=record.key.removeprefix(_CLUSTER_ROLES))
                await updates.modify(self._context, resource, place, self._collect)
            # Roles that select each other read all of them each: let other tasks run.
            await asyncio.sleep(0)

    def _is_stale(self, role: Object) -> bool:
        return bool(role.get("aggregationRule")) and (role.get("rules") or []) != self._rules(role)

    def _collect(self, role: Object) -> None:
        role["rules"] = self._rules(role) or None

    def _rules(self, role: Object) -> list[Object]:
        return self._context.security.policy.aggregated(role)
