"""What is written of groups of pods: whether they were scheduled, and an event for each new reason why not.

The conditions `PodGroupInitiallyScheduled` and `CompositePodGroupInitiallyScheduled` of `scheduling.k8s.io` never go
back from True. They are written when pods of the group are decided on, so that only the scheduler that places it does.
Groups of other APIs have a status that their own controllers write; of these there are events alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.interface import Resource
from dray.scheduling.actions import RefuseGroup
from dray.scheduling.front_ends import FRONT_ENDS, native
from dray.scheduling.group_model import Group
from dray.scheduling.groups import Groups
from dray.scheduling.model import Pod
from dray.scheduling_loop.optional_feed import OptionalFeed

CONDITION: Final = "InitiallyScheduled"
"""After the kind of the group."""
_SCHEDULED: Final = "Scheduled"
_INVALID: Final = "Invalid"
_logger = logging.getLogger("dray.scheduler")


class GroupWriter:
    def __init__(
        self,
        client: ApiClient,
        kinds: OptionalFeed,
        groups: Groups,
        events: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._informers = {
            (FRONT_ENDS[name].api_group, FRONT_ENDS[name].kind): informer
            for name, informer in kinds.informers.items()
            if name in FRONT_ENDS
        }
        self._groups = groups
        self._events = events
        self._now = now

    async def scheduled(self, pods: Iterable[Pod]) -> None:
        """Pods are on nodes: their groups say so that have as many there now as must start together."""
        found = {each.key: each for pod in pods for each in self._above(pod)}
        for group in found.values():
            if self._groups.is_started(group):
                await self._write(group, "True", _SCHEDULED, "the pods that have to start together are on their nodes")

    def _above(self, pod: Pod) -> list[Group]:
        group = self._groups.of(pod)
        return self._groups.forest.lineage(group) if group is not None else []

    async def refused(self, action: RefuseGroup) -> None:
        document, _ = self._current(action.group)
        if document is None:
            return
        if action.news:
            self._events.warning(document, "FailedScheduling", action.message, action="Scheduling")
        invalid = action.diagnosis.invalid
        for group in (self._groups.forest.lineage if invalid else self._groups.forest.below)(action.group):
            reason = _INVALID if invalid and group.key.kind == native.COMPOSITE else action.reason
            await self._write(group, "False", reason, action.message)

    def _current(self, group: Group) -> tuple[Object, Resource] | tuple[None, None]:
        """The newest that was seen of it, with its kind."""
        informer = self._informers.get((group.key.api, group.key.kind))
        if informer is None:
            return None, None
        found, version = informer.cache.get(group.key.name, namespace=group.key.namespace), informer.version
        if found is None or version is None or found["metadata"].get("uid") != group.uid:
            return None, None
        return {"apiVersion": version.api_version, "kind": version.kind, **found}, version

    async def _write(self, group: Group, status: str, reason: str, message: str) -> None:
        document, version = self._current(group)
        if document is None or version is None or group.key.api != native.API_GROUP:
            return
        kind = f"{group.key.kind}{CONDITION}"
        known = condition_of(document, kind) or {}
        wanted = {"status": status, "reason": reason, "message": message}
        if known.get("status") == "True" or all(known.get(name) == value for name, value in wanted.items()):
            return
        condition: Object = {"type": kind, **wanted}
        changed = known.get("status") != status
        condition["lastTransitionTime"] = timestamp(self._now()) if changed else known.get("lastTransitionTime")
        if generation := document["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        try:
            await self._client.patch_status(version, document, {"conditions": [condition]})
        except ClientError as error:
            _logger.debug("%s %s does not say whether it is scheduled: %s", group.key.kind, group.key.title, error)
