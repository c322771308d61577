"""ResourceSlice wiping: deletes the slices of this node whose driver is gone, so that nothing is scheduled on them.

All slices of the node are deleted when the agent starts: drivers that are alive publish theirs anew. Those of one
driver are deleted a while after its last connected instance is lost; an instance that connects in the meantime
cancels it.
"""

from __future__ import annotations

import asyncio
import logging
import random

from dray.api.catalogue import built_in
from dray.client.api import ApiClient
from dray.client.errors import ClientError
from dray.client.interface import Selection
from dray.node.timing import Timing
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)


class SliceWiper:
    def __init__(self, client: ApiClient, node: str, timing: Timing | None = None) -> None:
        self._client = client
        self._node = node
        self._timing = timing or Timing()
        self._slices = built_in("resource.k8s.io/v1", "ResourceSlice")
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def wipe_node(self) -> None:
        """Deletes every ResourceSlice of this node, of all drivers."""
        await self._wipe("")

    def lost(self, driver: str) -> None:
        """Schedules the deletion of the driver's ResourceSlices; a later call does not postpone it."""
        if driver not in self._pending:
            wiping = asyncio.create_task(self._wipe_later(driver), name=f"wiping of {driver}")
            self._pending[driver] = wiping
            wiping.add_done_callback(lambda task: self._forget(driver, task))

    def back(self, driver: str) -> None:
        if (pending := self._pending.pop(driver, None)) is not None:
            pending.cancel()

    async def close(self) -> None:
        pending = list(self._pending.values())
        await end_tasks(pending)

    def _forget(self, driver: str, task: asyncio.Task[None]) -> None:
        if self._pending.get(driver) is task:
            del self._pending[driver]

    async def _wipe_later(self, driver: str) -> None:
        await asyncio.sleep(self._timing.wipe_delay)
        await self._wipe(driver)

    async def _wipe(self, driver: str) -> None:
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        whose = f"of DRA driver {driver}" if driver else "of all DRA drivers"
        for failures in range(1, self._timing.wipe_attempts + 1):
            try:
                await self._client.delete_collection(self._slices, selection=Selection(fields=fields))
            except ClientError as error:
                wait = self._timing.wipe.delay(failures, random.random)
                _logger.warning("cannot delete the ResourceSlices %s on node %s: %s", whose, self._node, error)
                await asyncio.sleep(wait)
            else:
                _logger.info("ResourceSlices %s on node %s are deleted", whose, self._node)
                return
        _logger.error("gave up deleting the ResourceSlices %s on node %s", whose, self._node)
