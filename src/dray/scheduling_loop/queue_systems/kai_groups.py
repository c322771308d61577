"""PodGroups of KAI, where dray serves the kind itself: why they wait stands in their status, and stale gangs go."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dray.api.objects import Object, status_of, uid_of
from dray.client.errors import ClientError
from dray.client.foreign_kinds import KAI_GROUP
from dray.scheduling.eviction.stale_gangs import StaleGangs
from dray.scheduling.groups import kai
from dray.scheduling.model.actions import Refuse
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling_loop.binding import reference
from dray.scheduling_loop.queue_systems.queue_system import FeedContext, SystemFeed

_LOOK_SECONDS: Final = 2.0
_QUEUE: Final = "QueueDoesNotExist"
_REASONS: Final = {
    Code.OVER_LIMIT: "OverLimit",
    Code.NON_PREEMPTIBLE_OVER_QUOTA: "NonPreemptibleOverQuota",
    Code.QUEUE_NOT_FOUND: _QUEUE,
    Code.QUEUE_WITHOUT_PARENT: _QUEUE,
    Code.QUEUE_PARENTS: _QUEUE,
    Code.QUEUE_NOT_LEAF: _QUEUE,
}
_logger = logging.getLogger("dray.scheduler")


class KaiGroups(SystemFeed):
    def __init__(self, context: FeedContext) -> None:
        state = context.scheduler.state
        self._client = context.client
        self._kinds = context.kinds
        self._events = context.events
        self._pods = context.pods
        self._groups = state.groups
        self._queues = state.queues.system(KaiQueues)
        self._stale = StaleGangs(state)
        self._now = context.now

    @property
    def _own(self) -> bool:
        return self._kinds.is_own(kai.GROUP)

    async def run(self) -> None:
        """Evicts stale gangs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._own:
                # Not by the time of day, which may be set: pods would go too early.
                for group, pods in self._stale.overdue(loop.time()):
                    await self._evict(group, pods)

    async def _evict(self, group: Group, pods: tuple[Pod, ...]) -> None:
        text = f"{len(pods)} pods of {group.key.kind} {group.key.title} are left, which is too few to be of use"
        for pod in pods:
            try:
                await self._pods.evict(pod)
            except ClientError as error:
                _logger.debug("Pod %s/%s of a stale gang stays: %s", *pod.key, error)
                continue
            self._events.normal(reference(pod.document), "StaleGang", text, action="Preempting")

    async def refused(self, group: Group, action: Refuse) -> None:
        status = action.diagnosis.status
        code = status.reasons[0].code if status is not None and status.reasons else None
        reason = _REASONS.get(code, action.reason) if code is not None else action.reason
        if reason == action.reason and self._now() < self._queues.not_before(action.pod):
            reason = "PreemptionDelayNotElapsed"
        await self._write(group, [_condition([{"reason": reason, "message": action.message}])])

    async def scheduled(self, pod: Pod) -> None:
        """The pod has a place, and others of its group that start with it."""
        group = self._groups.of(pod)
        if group is not None:
            await self._write(group, [])

    async def _write(self, group: Group, conditions: list[Object]) -> None:
        document = group.document
        known = status_of(document).get("schedulingConditions") or []
        if not self._own or group.key.api != kai.API_GROUP or known == conditions:
            return
        body = {"metadata": {"uid": uid_of(document)}, "status": {"schedulingConditions": conditions}}
        namespace, name = document["metadata"].get("namespace", ""), document["metadata"]["name"]
        try:
            await self._client.patch(KAI_GROUP, name, body, namespace=namespace, subresource="status")
        except ClientError as error:
            _logger.debug("PodGroup %s does not say why it waits: %s", group.key.title, error)


def _condition(reasons: list[Object]) -> Object:
    return {"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True", "reasons": reasons}
