"""Deletion of pods by controllers: the reason is written into the status first; both writes are bound to the uid."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of, spec_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import NotFound
from dray.controllers.kinds import PODS

BY_NODE: Final = "spec.nodeName"
"""The index of pods by the node they are bound to."""


def node_of(pod: Object) -> tuple[str, ...]:
    node = spec_of(pod).get("nodeName")
    return (node,) if node else ()


def disruption(pod: Object, reason: str, message: str, now: datetime) -> Object:
    """What of a pod's status says that it is to end, and why; empty where it says so already."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    present = condition_of(pod, "DisruptionTarget", "True") or {}
    if condition.items() <= present.items():
        return {}
    since = present.get("lastTransitionTime") or timestamp(now)
    return {"conditions": [{**condition, "lastTransitionTime": since}]}


async def end_pod(client: ApiClient, pod: Object, *, status: Object | None = None, grace: int | None = None) -> bool:
    """Patches the status, if there is something to say, and deletes the pod; False if it is gone already."""
    try:
        if status:
            await client.patch_status(PODS, pod, status)
        await client.delete_object(PODS, pod, grace_period=grace)
    except NotFound:
        return False
    return True
