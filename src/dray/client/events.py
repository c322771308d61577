"""Events about objects, written in the background.

The same event about the same object (reason and message) is one Event whose count grows. Recording never waits and
never fails: what cannot be written after the client's retries, or does not fit into the queue, is dropped. When many
come at once they are written while the process has nothing better to do, or a few seconds later.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic, process_time
from typing import Any, Final, NamedTuple

from dray.api.caches import BoundedDict
from dray.api.catalogue import built_in
from dray.api.objects import Object, metadata_of
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, TimeOfDay, timestamp
from dray.client.errors import ApiError, ClientError, NotFound
from dray.client.log_throttling import ThrottledLog, cause_of

_QUEUE: Final = 10_000
_KNOWN: Final = 4096
_LONGEST: Final = 1024
_TOO_MANY: Final = _QUEUE // 2
# Number of events written at once while the process is busy; after a second, as many again.
_BATCH: Final = 8
_PAUSE: Final = 0.02
_PATIENCE: Final = 5.0
# Share of computing time above which the process is busy.
_BUSY: Final = 0.5
_logger = logging.getLogger(__name__)


class _Key(NamedTuple):
    uid: str
    kind: str
    namespace: str
    name: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class EventRecorder:
    """Records events of a `component`; events of cluster-scoped objects go to the namespace `default`."""

    def __init__(self, client: ApiClient, component: str, *, time: TimeOfDay | None = None) -> None:
        self._client = client
        self._component = component
        self._time = time or SystemTime()
        self._kind = built_in("v1", "Event")
        self._queue: asyncio.Queue[tuple[float, _Key, Object]] = asyncio.Queue(_QUEUE)
        self._last = 0
        self._hurried = False
        self._throttled = ThrottledLog(_logger)
        self._known: BoundedDict[_Key, tuple[str, int]] = BoundedDict(_KNOWN)
        """The name and count of the Event of each key."""

    def normal(self, about: Object, reason: str, message: str, *, action: str = "") -> None:
        self._record(about, "Normal", reason, message, action)

    def warning(self, about: Object, reason: str, message: str, *, action: str = "") -> None:
        self._record(about, "Warning", reason, message, action)

    async def run(self) -> None:
        """Writes events until it is cancelled."""
        left, since = _BATCH, monotonic()
        while True:
            recorded, key, event = await self._queue.get()
            if monotonic() > since + 1.0:
                left, since = _BATCH, monotonic()
            if not left:
                await self._calm(recorded + _PATIENCE)
                left = _BATCH
            left -= 1
            try:
                await self._write(key, event)
            except ClientError as error:
                self._throttled.warning(cause_of(error), "event %s about %s is lost: %s", key.reason, key, error)
            finally:
                self._queue.task_done()

    async def _calm(self, end: float) -> None:
        """Waits while the process is busy, until that time or until too many events wait."""
        while not self._hurried and monotonic() < end and self._queue.qsize() < _TOO_MANY:
            before, used = monotonic(), process_time()
            await asyncio.sleep(_PAUSE)
            if process_time() - used < _BUSY * (monotonic() - before):
                return

    async def written(self) -> None:
        """Returns when everything recorded so far is written or dropped; the writes are not delayed."""
        self._hurried = True
        try:
            await self._queue.join()
        finally:
            self._hurried = False

    def _record(self, about: Object, type_: str, reason: str, message: str, action: str) -> None:
        metadata = metadata_of(about)
        message = _shortened(message)
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        key = _Key(metadata.get("uid") or "", about.get("kind") or "", namespace, name, reason, message)
        involved = {
            "apiVersion": about.get("apiVersion"),
            "kind": about.get("kind"),
            "namespace": namespace,
            "name": name,
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        now = self._time.now()
        # Names are unique, however quickly events come.
        self._last = max(self._last + 1, int(now.timestamp() * 1e6))
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{self._last:x}", "namespace": namespace or "default"},
            "involvedObject": {member: value for member, value in involved.items() if value},
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }
        if action:
            event["action"] = action
        try:
            self._queue.put_nowait((monotonic(), key, event))
        except asyncio.QueueFull:
            self._throttled.warning("full", "event %s about %s is dropped: %d are waiting", reason, key, _QUEUE)

    async def _write(self, key: _Key, event: Object) -> None:
        namespace = event["metadata"]["namespace"]
        known = self._known.get(key)
        if known is not None:
            name, count = known[0], known[1] + 1
            seen_again: dict[str, Any] = {"count": count, "lastTimestamp": event["lastTimestamp"]}
            try:
                await self._client.patch(self._kind, name, seen_again, namespace=namespace)
            except NotFound:
                pass
            else:
                # A repeated event moves to the end of the cache.
                self._known.pop(key, None)
                self._known[key] = name, count
                return
        try:
            await self._client.create(self._kind, event)
        except NotFound:
            return
        except ApiError as error:
            # The namespace is terminating, and its events are deleted with it.
            if not error.is_namespace_ending:
                raise
            return
        self._known[key] = event["metadata"]["name"], 1


def _shortened(message: str) -> str:
    encoded = message.encode()
    return message if len(encoded) <= _LONGEST else encoded[: _LONGEST - 3].decode(errors="ignore") + "..."
