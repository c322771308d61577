"""Writer of a pod's status: what changed is written soon, once, and again where the server refused it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, metadata_of
from dray.client.api import ApiClient
from dray.client.errors import ClientError, Conflict, NotFound
from dray.client.retries import Backoff
from dray.node.pod_status import same

PODS: Final = built_in("v1", "Pod")
# Changes within this time are written together.
_TOGETHER: Final = 0.01
_RETRIES: Final = Backoff(first=0.2, longest=10.0, jitter=0.0)


class PodStatusWriter:
    """Writes the status of one pod.

    `pod` returns the pod at the API server, None if it is not there; `status` returns the status to write.
    """

    def __init__(self, client: ApiClient, pod: Callable[[], Object | None], status: Callable[[], Object]) -> None:
        self._client = client
        self._pod = pod
        self._status = status
        self._dirty = asyncio.Event()
        self._written: Object | None = None
        self._version = ""
        self._lock = asyncio.Lock()
        self._closed = False

    def changed(self) -> None:
        self._dirty.set()

    def close(self) -> None:
        """Stops writing; the status stays as it is."""
        self._closed = True

    async def run(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(_TOGETHER)
            self._dirty.clear()
            await self.flush()

    async def flush(self) -> None:
        """Returns when the present status is written, or the pod is gone."""

        async def write() -> None:
            async with self._lock:
                await self._write()

        await _until_done(write)

    async def _write(self) -> None:
        pod = self._pod()
        if self._closed or pod is None:
            return
        status = self._status()
        version = str(metadata_of(pod).get("resourceVersion") or "")
        if same(pod, status) or (status == self._written and version == self._version):
            return
        await self._client.patch_status(PODS, pod, status)
        self._written, self._version = status, version

    async def remove_pod(self) -> None:
        """Removes a deleted pod from the API server for good."""
        if (pod := self._pod()) is not None:
            await _until_done(lambda: self._client.delete_object(PODS, pod, grace_period=0))


async def _until_done(write: Callable[[], Awaitable[object]]) -> None:
    """Retries a write until it succeeds, the pod is gone, or another pod has its name."""
    for delay in _RETRIES.delays():
        try:
            await write()
            return
        except (NotFound, Conflict):
            return
        except ClientError:
            await asyncio.sleep(delay)
