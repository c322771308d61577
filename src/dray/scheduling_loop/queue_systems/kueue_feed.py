"""KueueFeed: what is written about queues of Kueue, where dray serves the kinds itself.

Their status says what their pods have and how many wait; what LocalQueues used in the past is kept there too, and found
again after a restart. Pods have to go whose queue is to be drained.

On a cluster where Kueue is installed, it admits the pods, and this scheduler places those that it let go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from dray.api.objects import Object, is_deleting, key_of, status_of, uid_of
from dray.client.errors import ClientError
from dray.client.foreign_kinds import KUEUE
from dray.scheduling.quota.kueue.policy import KueueQueues
from dray.scheduling.quota.kueue.status import QueueStatuses
from dray.scheduling_loop.queue_systems.queue_system import FeedContext, SystemFeed

_SECONDS: Final = 2.0
_IDLE_WEIGHT: Final = "spec.fairSharing.weight: the ClusterQueue has no admissionScope that goes by use"
_logger = logging.getLogger("dray.scheduler")


class KueueFeed(SystemFeed):
    def __init__(self, context: FeedContext) -> None:
        self._client = context.client
        self._kinds = context.kinds
        self._stop = context.stop
        self._queues = context.scheduler.state.queues.system(KueueQueues)
        self._all_queues = context.scheduler.state.queues
        self._now = context.now

    async def run(self) -> None:
        """Writes statuses, and evicts pods of drained queues, until it is cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            if self._all_queues.is_served("ClusterQueue"):
                now = self._now()
                self._queues.order.sample(now)
                await self._drain()
                await self._write_statuses(QueueStatuses(self._queues, now))

    async def _drain(self) -> None:
        for pod, queue in self._queues.drained():
            if pod.uid in self._all_queues.evicted or is_deleting(pod.document):
                continue
            try:
                self._all_queues.mark_evicted((pod,))
                await self._stop(pod, queue)
            except ClientError as error:
                self._all_queues.unmark_evicted((pod,))
                _logger.debug("Pod %s/%s does not go from its stopped queue: %s", *pod.key, error)

    async def _write_statuses(self, statuses: QueueStatuses) -> None:
        for queue in self._queues.all():
            document = self._kinds.informers["ClusterQueue"].cache.get(queue.name)
            if document is not None:
                await self._write("ClusterQueue", document, statuses.of_cluster_queue(queue, document))
        for namespace, name in list(self._queues.local_queues()):
            document = self._kinds.informers["LocalQueue"].cache.get(name, namespace=namespace)
            if document is not None:
                await self._write("LocalQueue", document, statuses.of_local_queue((namespace, name), document))
                idle = self._queues.has_idle_weight((namespace, name))
                self._kinds.unheeded.warn(KUEUE["LocalQueue"], document, [_IDLE_WEIGHT] if idle else [])

    async def _write(self, kind: str, document: Object, wanted: Object) -> None:
        if all(status_of(document).get(name) == value for name, value in wanted.items()):
            return
        namespace, name = key_of(document)
        body = {"metadata": {"uid": uid_of(document)}, "status": wanted}
        try:
            await self._client.patch(KUEUE[kind], name, body, namespace=namespace, subresource="status")
        except ClientError as error:
            _logger.debug("%s %s does not say what its pods have: %s", kind, name, error)
