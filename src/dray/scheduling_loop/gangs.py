"""Gangs are not placed as a whole yet: an event and a condition of their PodGroup say so, once for each group.

They are written when a pod of the group is first decided on, so that only the scheduler that places it speaks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of, walk
from dray.api.pods import group_name
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.discovery import OptionalInformer
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.scheduling.model import Pod

CONDITION: Final = "PodGroupInitiallyScheduled"
REASON: Final = "NotScheduledAsGroup"
_MESSAGE: Final = (
    "gangs are not scheduled as a whole yet: the pods of the group are placed one by one,"
    " and a part of it may hold devices while the rest waits"
)
_MOST_KNOWN: Final = 100_000
_logger = logging.getLogger("dray.scheduler")


class Gangs:
    def __init__(
        self, client: ApiClient, groups: OptionalInformer, events: EventRecorder, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._groups = groups
        self._events = events
        self._now = now
        self._told: set[str] = set()
        """The uids of groups that need no word any more."""

    async def tell(self, pod: Pod) -> None:
        """A pod is placed or refused by itself: if it belongs to a gang, the group says so."""
        name = group_name(pod.document)
        group = self._groups.cache.get(name, namespace=pod.key[0]) if name else None
        if group is None or group["metadata"].get("uid") in self._told or not _is_gang(group):
            return
        if len(self._told) >= _MOST_KNOWN:
            self._told.clear()
        self._told.add(str(group["metadata"].get("uid")))
        known = condition_of(group, CONDITION) or {}
        if known.get("status") == "True" or known.get("reason") == REASON:
            return
        version = self._groups.version
        assert version is not None
        about = {"apiVersion": version.api_version, "kind": version.kind, **group}
        self._events.warning(about, REASON, _MESSAGE, action="Scheduling")
        try:
            await self._write(group, known)
        except ClientError as error:
            _logger.debug("PodGroup %s/%s does not say that it is no gang: %s", pod.key[0], name, error)

    async def _write(self, group: Object, known: Object) -> None:
        metadata = group["metadata"]
        condition = {"type": CONDITION, "status": "False", "reason": REASON, "message": _MESSAGE}
        condition["lastTransitionTime"] = known.get("lastTransitionTime") or timestamp(self._now())
        if metadata.get("generation"):
            condition["observedGeneration"] = metadata["generation"]
        assert self._groups.version is not None
        await self._client.patch_status(self._groups.version, group, {"conditions": [condition]})


def _is_gang(group: Object) -> bool:
    return walk(group, "spec", "schedulingPolicy").get("gang") is not None
