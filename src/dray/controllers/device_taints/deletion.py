"""Deletion of an evicted pod: the event, the condition DisruptionTarget, the deletion.

What the informer knows may be old, so the pod is read again first. Everything is bound to its uid: a pod of the same
name that came since is left alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from prometheus_client import Counter, Histogram

from dray.api.caches import BoundedDict
from dray.api.objects import Object, is_deleting, key_of
from dray.client.errors import NotFound
from dray.controllers.environment import Environment
from dray.controllers.kinds import PODS
from dray.controllers.pod_deletion import disruption, end_pod

EVENT: Final = "DeviceTaintManagerEviction"
_REASON: Final = "DeletionByDeviceTaintManager"
_MESSAGE: Final = "Device Taint manager: deleting due to NoExecute taint"
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
_REMEMBERED: Final = 500


class Deletion:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._ended: BoundedDict[str, None] = BoundedDict(_REMEMBERED)
        self._total = Counter(
            "device_taint_eviction_controller_pod_deletions",
            "Pods deleted because of device taints.",
            registry=environment.metrics,
        )
        self._latency = Histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds from the moment at which a pod was due to be deleted to its deletion.",
            buckets=_BUCKETS,
            registry=environment.metrics,
        )

    def is_done(self, pod: Object) -> bool:
        """Whether the pod was seen to end here, though the informer may not know yet."""
        return pod["metadata"].get("uid") in self._ended

    async def delete(self, known: Object, due: datetime) -> bool:
        """False where somebody else was faster. Raises ClientError."""
        uid = known["metadata"].get("uid") or ""
        try:
            deleted = await self._delete(known, uid)
        except NotFound:
            deleted = False
        self._ended[uid] = None
        if deleted:
            self._total.inc()
            self._latency.observe(max(0.0, (self._environment.time.now() - due).total_seconds()))
        return deleted

    async def _delete(self, known: Object, uid: str) -> bool:
        client = self._environment.client
        namespace, name = key_of(known)
        pod = await client.get(PODS, name, namespace=namespace)
        if pod["metadata"].get("uid") != uid or is_deleting(pod):
            return False
        self._environment.events.normal(pod, EVENT, "Marking for deletion")
        return await end_pod(client, pod, status=disruption(pod, _REASON, _MESSAGE, self._environment.time.now()))
