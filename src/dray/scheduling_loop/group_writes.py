"""What is read and written of groups of pods: whether they were scheduled, and an event for each new reason why not.

The condition `PodGroupInitiallyScheduled` of `scheduling.k8s.io` never goes back from True. It is written when pods of
the group are decided on, so that only the scheduler that places it speaks. Groups of other APIs have a status that
their own controllers write; of these there are events alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.discovery import OptionalInformer
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.foreign_kinds import COSCHEDULING
from dray.client.informer import Informers
from dray.client.interface import Resource
from dray.scheduling.actions import RefuseGroup
from dray.scheduling.front_ends import FRONT_ENDS, native
from dray.scheduling.group_model import Group

CONDITION: Final = "PodGroupInitiallyScheduled"
_SCHEDULED: Final = "Scheduled"
_logger = logging.getLogger("dray.scheduler")


def group_informers(client: ApiClient, informers: Informers) -> dict[str, OptionalInformer]:
    """Of each kind that a front end reads, where the server serves it."""
    native_groups = OptionalInformer(client, informers, native.API_GROUP, native.PLURAL)
    others = OptionalInformer(client, informers, COSCHEDULING.group, COSCHEDULING.plural, version=COSCHEDULING)
    return dict(zip(FRONT_ENDS, (native_groups, others), strict=True))


class GroupWriter:
    def __init__(
        self,
        client: ApiClient,
        groups: Mapping[str, OptionalInformer],
        events: EventRecorder,
        now: Callable[[], datetime],
    ) -> None:
        """`groups` by the name that the scheduler's front end has for the kind."""
        self._client = client
        self._groups = {FRONT_ENDS[kind].API_GROUP: informer for kind, informer in groups.items()}
        self._events = events
        self._now = now

    async def scheduled(self, group: Group) -> None:
        """As many of its pods are on nodes as must start together."""
        await self._write(group, "True", _SCHEDULED, "the pods that have to start together are on their nodes")

    async def refused(self, action: RefuseGroup) -> None:
        document, _ = self._current(action.group)
        if document is None:
            return
        self._events.warning(document, "FailedScheduling", action.message, action="Scheduling")
        await self._write(action.group, "False", action.reason, action.message)

    def _current(self, group: Group) -> tuple[Object, Resource] | tuple[None, None]:
        """The newest that was seen of it, with its kind."""
        informer = self._groups[group.key.api]
        found, version = informer.cache.get(group.key.name, namespace=group.key.namespace), informer.version
        if found is None or version is None or found["metadata"].get("uid") != group.uid:
            return None, None
        return {"apiVersion": version.api_version, "kind": version.kind, **found}, version

    async def _write(self, group: Group, status: str, reason: str, message: str) -> None:
        document, version = self._current(group)
        if document is None or version is None or group.key.api != native.API_GROUP:
            return
        known = condition_of(document, CONDITION) or {}
        wanted = {"status": status, "reason": reason, "message": message}
        if known.get("status") == "True" or all(known.get(name) == value for name, value in wanted.items()):
            return
        condition: Object = {"type": CONDITION, **wanted}
        changed = known.get("status") != status
        condition["lastTransitionTime"] = timestamp(self._now()) if changed else known.get("lastTransitionTime")
        if generation := document["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        try:
            await self._client.patch_status(version, document, {"conditions": [condition]})
        except ClientError as error:
            _logger.debug("PodGroup %s does not say whether it is scheduled: %s", group.key.title, error)
