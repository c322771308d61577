"""The DRA part of a node, composed: registry, plugins, manager, health, pod resources, on one root directory.

    async with DraNode(client, "worker-1", Path("/var/lib/kubelet"), pods=active_pods) as node:
        await node.manager.prepare(pod)
        ids = node.cdi_ids(pod, container)
        ...
        await node.manager.unprepare(pod_uid)

`pods` gives the pods of the node that have not ended, from whatever the agent knows them by, and None before it knows
any. What was prepared for others is unprepared from time to time; health that changed is reported to `health_changed`
with the uids of the pods that are concerned. Leaving the block stops everything and changes nothing: pods go on, and
the next agent on the same directory takes over from the checkpoint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from dray.api.gates import DEFAULT_GATES, FeatureGates
from dray.api.objects import Object, uid_of
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay, anchored_seconds
from dray.node.allocated_resources import AllocatedResources
from dray.node.checkpoint import FILE_NAME, Checkpoint
from dray.node.claim_cache import ClaimCache
from dray.node.container_devices import cdi_ids
from dray.node.dra_manager import DraManager
from dray.node.dra_plugins import DraPlugins
from dray.node.health_cache import HealthCache, Place
from dray.node.health_watch import HealthWatch
from dray.node.metrics import NodeMetrics
from dray.node.plugin_registry import DRA_PLUGIN, PluginRegistry
from dray.node.pod_claims import PodClaims
from dray.node.pod_resources import SOCKET, PodResourcesServer
from dray.node.slice_wiper import SliceWiper
from dray.node.timing import Timing
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)


class DraNode:
    def __init__(
        self,
        client: ApiClient,
        node: str,
        root: Path,
        *,
        pods: Callable[[], Iterable[Object] | None],
        health_changed: Callable[[set[str]], None] = lambda uids: None,
        gates: FeatureGates = DEFAULT_GATES,
        timing: Timing | None = None,
        time: TimeOfDay | None = None,
        interceptors: Sequence[grpc.aio.ClientInterceptor] = (),
    ) -> None:
        timing = timing or Timing()
        root.mkdir(parents=True, exist_ok=True)
        self.metrics = NodeMetrics()
        cache = ClaimCache(Checkpoint(root / FILE_NAME), self.metrics)
        self._now = anchored_seconds(time or SystemTime())
        self._pods = pods
        self._health_changed = health_changed
        self._timing = timing
        self._health = HealthWatch(HealthCache(root / "dra_health_state"), self._changed, timing=timing, time=time)
        self._wiper = SliceWiper(client, node, timing)
        self.plugins = DraPlugins(
            timing=timing, wiper=self._wiper, health=self._health, metrics=self.metrics, interceptors=interceptors
        )
        self.registry = PluginRegistry(root / "plugins_registry", {DRA_PLUGIN: self.plugins}, timing)
        self.manager = DraManager(PodClaims(client, gates), self.plugins, cache, self.metrics)
        self.allocated = AllocatedResources(cache, self._health.cache)
        self.pod_resources = PodResourcesServer(root / SOCKET, lambda: pods() or (), cache)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> DraNode:
        self.manager.cache.reload()
        self._start(self._wiper.wipe_node(), "wiping of slices")
        self._start(self.registry.run(), "plugin registry")
        self._start(self._health.run(), "device health")
        self._start(self._reconcile(), "claims of pods that are gone")
        await self.pod_resources.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await end_tasks(self._tasks)
        await self.pod_resources.stop()
        await self.plugins.close()
        await self._wiper.close()

    def cdi_ids(self, pod: Object, container: Object) -> list[str]:
        """Returns the CDI ids to inject into the container; raises PrepareError if its claims are not prepared."""
        return cdi_ids(self.manager.cache, pod, container)

    def allocated_resources(self, pod: Object) -> dict[str, list[Object]]:
        """Returns the present `allocatedResourcesStatus` by container."""
        return self.allocated.statuses(pod, self._now())

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        self._tasks.append(task)

    def _changed(self, driver: str, devices: set[Place]) -> None:
        cache = self.manager.cache
        uids = {uid for place in devices for info in cache.of_device(driver, *place) for uid in info.pods}
        if uids:
            self._health_changed(uids)

    async def _reconcile(self) -> None:
        while True:
            await asyncio.sleep(self._timing.reconcile)
            if (pods := self._pods()) is not None:
                await self.manager.reconcile([uid_of(pod) for pod in pods])


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
