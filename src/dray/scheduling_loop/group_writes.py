"""What is written about groups of pods: whether they were scheduled, in a condition and, for each new reason, an event.

`PodGroupInitiallyScheduled` never goes back from True. It is written when pods of the group are decided on, so that
only the scheduler that places it speaks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.discovery import OptionalInformer
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.scheduling.actions import RefuseGroup
from dray.scheduling.group_model import Group

CONDITION: Final = "PodGroupInitiallyScheduled"
_SCHEDULED: Final = "Scheduled"
_logger = logging.getLogger("dray.scheduler")


class GroupWriter:
    def __init__(
        self, client: ApiClient, groups: OptionalInformer, events: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._groups = groups
        self._events = events
        self._now = now

    async def scheduled(self, group: Group) -> None:
        """As many of its pods are on nodes as must start together."""
        await self._write(group, "True", _SCHEDULED, "the pods that have to start together are on their nodes")

    async def refused(self, action: RefuseGroup) -> None:
        document = self._current(action.group)
        if document is None:
            return
        self._events.warning(document, "FailedScheduling", action.message, action="Scheduling")
        await self._write(action.group, "False", action.reason, action.message)

    def _current(self, group: Group) -> Object | None:
        """The newest that was seen of it, with its kind."""
        found, version = self._groups.cache.get(group.key.name, namespace=group.key.namespace), self._groups.version
        if found is None or version is None or found["metadata"].get("uid") != group.uid:
            return None
        return {"apiVersion": version.api_version, "kind": version.kind, **found}

    async def _write(self, group: Group, status: str, reason: str, message: str) -> None:
        document, version = self._current(group), self._groups.version
        if document is None or version is None:
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
