"""Deletion of pods by controllers: the reason is written into the status first; both writes are bound to the uid."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from dray.api.objects import Object, condition_of, key_of, spec_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import ApiError
from dray.client.interface import DeleteOptions, PatchType
from dray.controllers.kinds import PODS

BY_NODE: Final = "spec.nodeName"
"""The index of pods by the node they are bound to."""


def node_of(pod: Object) -> tuple[str, ...]:
    node = spec_of(pod).get("nodeName")
    return (node,) if node else ()


def disruption(reason: str, message: str, now: datetime) -> Object:
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }


def is_disrupted(pod: Object, reason: str) -> bool:
    """Whether the pod says already that it ends for this reason."""
    return (condition_of(pod, "DisruptionTarget", "True") or {}).get("reason") == reason


async def end_pod(client: ApiClient, pod: Object, *, status: Object | None = None, grace: int | None = None) -> bool:
    """Patches the status, if there is something to say, and deletes the pod; False if it is gone already."""
    namespace, name = key_of(pod)
    uid = pod["metadata"]["uid"]
    try:
        if status:
            # The uid is a precondition: a pod that took the name since is another one.
            body = {"metadata": {"uid": uid}, "status": status}
            await client.patch(
                PODS, name, body, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status"
            )
        await client.delete(PODS, name, namespace=namespace, options=DeleteOptions(uid=uid, grace_period=grace))
    except ApiError as error:
        if error.is_not_found:
            return False
        raise
    return True
