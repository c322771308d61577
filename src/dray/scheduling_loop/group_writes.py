"""What is written of groups of pods: whether they were scheduled, and an event for each new reason why not.

The conditions `PodGroupInitiallyScheduled` and `CompositePodGroupInitiallyScheduled` of `scheduling.k8s.io` never go
back from True. They are written when pods of the group are decided on, so that only the scheduler that places it does.
A group that has too few pods left since then says so by the condition `DisruptionTarget`, until enough of them are on
nodes again. Groups of other APIs have a status that their own controllers write; of these there are events alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import ClientError
from dray.client.events import EventRecorder
from dray.client.interface import Resource
from dray.scheduling.groups import native
from dray.scheduling.groups.front_ends import FRONT_ENDS
from dray.scheduling.groups.groups import Groups
from dray.scheduling.model.actions import Refuse
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import GroupDiagnosis
from dray.scheduling_loop.optional_feed import OptionalFeed

CONDITION: Final = "InitiallyScheduled"
"""After the kind of the group."""
_SCHEDULED: Final = "Scheduled"
_INVALID: Final = "Invalid"
_DISRUPTED: Final = "DisruptionTarget"
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
        self._disrupted_groups: dict[str, GroupKey] = {}
        """Groups whose disruption was written, by uid. The cache may not show it yet."""

    async def scheduled(self, pods: Iterable[Pod]) -> None:
        """Pods are on nodes: their groups say so that have as many there now as must start together."""
        found = {each.key: each for pod in pods for each in self._above(pod)}
        for group in found.values():
            if self._groups.is_started(group):
                await self._write(group, "True", _SCHEDULED, "the pods that have to start together are on their nodes")
                await self._restored(group)

    async def disrupted(self, victims: Sequence[Pod], reason: str, message: str) -> None:
        """Pods are being evicted: their groups say so that are left with fewer than must start together."""
        found = {group.key: group for pod in victims for group in self._above(pod)}
        for group in found.values():
            if not self._groups.is_started_without(group, victims):
                await self._disrupted(group, reason, message)

    async def _disrupted(self, group: Group, reason: str, message: str) -> None:
        if group.key.api == native.API_GROUP:
            self._disrupted_groups = {uid: key for uid, key in self._disrupted_groups.items() if self._exists(uid, key)}
            self._disrupted_groups[group.uid] = group.key
            await self._put(group, _DISRUPTED, "True", reason, message)

    def _exists(self, uid: str, key: GroupKey) -> bool:
        known = self._groups.forest.get(key)
        return known is not None and known.uid == uid

    def _is_disrupted(self, group: Group) -> bool:
        return group.uid in self._disrupted_groups or self._is_true(group, _DISRUPTED)

    async def _restored(self, group: Group) -> None:
        if self._is_disrupted(group):
            self._disrupted_groups.pop(group.uid, None)
            await self._put(group, _DISRUPTED, "False", _SCHEDULED, "enough of its pods are on nodes again")

    def _above(self, pod: Pod) -> list[Group]:
        group = self._groups.of(pod)
        return self._groups.forest.lineage(group) if group is not None else []

    async def refused(self, group: Group, action: Refuse) -> None:
        document, _ = self._current(group)
        if document is None:
            return
        if action.news:
            self._events.warning(document, "FailedScheduling", action.message, action="Scheduling")
        invalid = isinstance(action.diagnosis, GroupDiagnosis) and action.diagnosis.invalid
        for concerned in (self._groups.forest.lineage if invalid else self._groups.forest.below)(group):
            reason = _INVALID if invalid and concerned.key.kind == native.COMPOSITE else action.reason
            await self._write(concerned, "False", reason, action.message)
            if self._has_lost_pods(concerned):
                await self._disrupted(concerned, action.reason, action.message)

    def _has_lost_pods(self, group: Group) -> bool:
        """Whether the group was scheduled once, has too few pods now, and does not say so yet."""
        if not self._is_true(group, f"{group.key.kind}{CONDITION}") or self._is_disrupted(group):
            return False
        return not self._groups.is_started(group)

    def _is_true(self, group: Group, kind: str) -> bool:
        document, _ = self._current(group)
        return document is not None and condition_of(document, kind, "True") is not None

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
        """Says whether the group was scheduled; once it was, that stays so."""
        kind = f"{group.key.kind}{CONDITION}"
        if not self._is_true(group, kind):
            await self._put(group, kind, status, reason, message)

    async def _put(self, group: Group, kind: str, status: str, reason: str, message: str) -> None:
        document, version = self._current(group)
        if document is None or version is None or group.key.api != native.API_GROUP:
            return
        known = condition_of(document, kind) or {}
        wanted = {"status": status, "reason": reason, "message": message}
        if all(known.get(name) == value for name, value in wanted.items()):
            return
        condition: Object = {"type": kind, **wanted}
        changed = known.get("status") != status
        condition["lastTransitionTime"] = timestamp(self._now()) if changed else known.get("lastTransitionTime")
        if generation := document["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        try:
            await self._client.patch_status(version, document, {"conditions": [condition]})
        except ClientError as error:
            _logger.debug("%s %s: condition %s not written: %s", group.key.kind, group.key.title, kind, error)
