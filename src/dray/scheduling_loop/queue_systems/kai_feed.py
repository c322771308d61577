"""KaiFeed: what is written about queues of KAI, where dray serves the kind itself: what their pods have and want.

Where past usage counts, what queues hold is sampled, and kept in a ConfigMap so that a restart finds it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, mapping, status_of, uid_of
from dray.client.errors import AlreadyExists, ClientError, NotFound
from dray.client.foreign_kinds import KAI_QUEUE
from dray.scheduling.quota.kai.policy import KaiQueues
from dray.scheduling.quota.kai.queue import RESOURCES
from dray.scheduling.quota.kai.share_tree import ShareNode
from dray.scheduling.quota.usage_decay import UsageHistory
from dray.scheduling_loop.queue_systems.queue_system import FeedContext, SystemFeed

STORE: Final = ("kube-system", "dray-queue-usage")
_CONFIG_MAPS: Final = built_in("v1", "ConfigMap")
_MEMBER: Final = "usage.json"
_STATUS_SECONDS: Final = 2.0
_COUNT_SECONDS: Final = 30.0
_SAMPLE_SECONDS: Final = 60.0
_STORE_SECONDS: Final = 300.0
_logger = logging.getLogger("dray.scheduler")


class KaiFeed(SystemFeed):
    def __init__(self, context: FeedContext) -> None:
        self._client = context.client
        self._informer = context.kinds.informers[KAI_QUEUE.kind]
        self._scheduler = context.scheduler
        self._queues = context.scheduler.state.queues.system(KaiQueues)
        self._now = context.now
        self._wake = context.wake
        usage = context.scheduler.options.queue_usage
        self._history = UsageHistory(usage) if usage is not None else None
        self._queues.tree.k = usage.k if usage is not None else 0.0
        self._counted = 0.0
        self._sampled = 0.0
        self._stored = 0.0
        self._restored = False

    async def start(self) -> None:
        """Returns when the past usage of queues is known, if there are queues."""
        if not self._restored and self._scheduler.state.queues.is_served(KAI_QUEUE.kind):
            self._restored = True
            await self._restore()

    async def run(self) -> None:
        """Samples usage and writes statuses until it is cancelled."""
        while True:
            await asyncio.sleep(_STATUS_SECONDS)
            await self.start()
            if self._queues.tree:
                now = self._now()
                if _is_due(self._counted, now, _COUNT_SECONDS):
                    self._counted = now
                    self._queues.count_outside(self._scheduler.state.nodes.values())
                if self._history is not None and _is_due(self._sampled, now, _SAMPLE_SECONDS):
                    self._sample(self._history, now)
                await self._write_statuses()
                if self._history is not None and _is_due(self._stored, now, _STORE_SECONDS):
                    await self._store(self._history, now)

    # Statuses

    async def _write_statuses(self) -> None:
        for node in self._queues.shares().all():
            document = self._informer.cache.get(node.name)
            wanted = queue_status(node)
            if document is None or all(status_of(document).get(name) == value for name, value in wanted.items()):
                continue
            try:
                body = {"metadata": {"uid": uid_of(document)}, "status": wanted}
                await self._client.patch(KAI_QUEUE, node.name, body, subresource="status")
            except ClientError as error:
                _logger.debug("Queue %s does not say what its pods have: %s", node.name, error)

    # Past usage

    def _sample(self, history: UsageHistory, now: float) -> None:
        self._sampled = now
        tree = self._queues.shares()
        history.sample(now, {node.name: dict(node.held) for node in tree.all()}, tree.capacity)
        tree.usage = history.usage(now)
        tree.outdate()
        self._wake()

    async def _restore(self) -> None:
        if self._history is None:
            return
        try:
            found = await self._client.get(_CONFIG_MAPS, STORE[1], namespace=STORE[0])
            self._history.restore(json.loads(mapping(found.get("data")).get(_MEMBER) or "{}"), self._now())
        except NotFound:
            return
        except (ClientError, ValueError, RecursionError) as error:
            _logger.warning("what queues had in the past is not known: %s", error)
        self._queues.tree.usage = self._history.usage(self._now())
        self._stored = self._now()

    async def _store(self, history: UsageHistory, now: float) -> None:
        self._stored = now
        data = {_MEMBER: json.dumps(history.to_object(), separators=(",", ":"))}
        metadata = {"namespace": STORE[0], "name": STORE[1]}
        try:
            try:
                await self._client.create(
                    _CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
                )
            except AlreadyExists:
                await self._client.patch(_CONFIG_MAPS, STORE[1], {"data": data}, namespace=STORE[0])
        except ClientError as error:
            _logger.warning("what queues had in the past is not stored: %s", error)


def _is_due(last: float, now: float, period: float) -> bool:
    """Returns True once the period is over, and also if the clock was set back behind the last time."""
    return not last <= now < last + period


def queue_status(node: ShareNode) -> Object:
    requested = {each: node.held.get(each, 0.0) + node.waiting.get(each, 0.0) for each in RESOURCES}
    return {
        "allocated": amounts_text(node.held),
        "allocatedNonPreemptible": amounts_text(node.kept),
        "requested": amounts_text(requested),
        "childQueues": sorted(each.name for each in node.children),
    }


def amounts_text(amounts: Mapping[str, float]) -> dict[str, str]:
    """Returns the amounts of all resources as quantities."""
    return {name: _quantity(name, round(amounts.get(name, 0.0))) for name in RESOURCES}


def _quantity(resource: str, amount: int) -> str:
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return str(amount)
