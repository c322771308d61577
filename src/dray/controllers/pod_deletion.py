"""Deletion of pods by controllers: the reason is written into the status first; both writes are bound to the uid."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from dray.api.objects import Object, condition_of, spec_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import NotFound
from dray.controllers.kinds import PODS

BY_NODE: Final = "spec.nodeName"
"""The index of pods by the node they are bound to."""
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


def node_of(pod: Object) -> tuple[str, ...]:
    node = spec_of(pod).get("nodeName")
    return (node,) if node else ()


def disruption(pod: Object, reason: str, message: str, now: datetime) -> Object:
    """Returns a status patch with the DisruptionTarget condition; empty if the pod has that condition already."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    present = condition_of(pod, "DisruptionTarget", "True") or {}
    if condition.items() <= present.items():
        return {}
    since = present.get("lastTransitionTime") or timestamp(now)
    return {"conditions": [{**condition, "lastTransitionTime": since}]}


async def end_pod(client: ApiClient, pod: Object, *, status: Object | None = None, grace: int | None = None) -> bool:
    """Patches the status, if it changes, and deletes the pod. Returns False if the pod is gone."""
    try:
        if status:
            await client.patch_status(PODS, pod, status)
        await client.delete_object(PODS, pod, grace_period=grace)
    except NotFound:
        return False
    return True


class DeletionMetrics:
    """Metrics of a controller that deletes pods at a set time."""

    def __init__(self, controller: str, cause: str, registry: CollectorRegistry) -> None:
        self._total = Counter(f"{controller}_pod_deletions", f"Pods deleted because of {cause}.", registry=registry)
        self._latency = Histogram(
            f"{controller}_pod_deletion_duration_seconds",
            "Seconds from the moment at which a pod was due to be deleted to its deletion.",
            buckets=_BUCKETS,
            registry=registry,
        )

    def deleted(self, late: float) -> None:
        """Counts one deletion, `late` seconds after it was due."""
        self._total.inc()
        self._latency.observe(late)
