"""Marks the pods of a node without heartbeat as not ready."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.objects import Object, condition_of, key_of
from dray.client.api import ApiClient
from dray.client.errors import ApiError
from dray.client.events import EventRecorder
from dray.client.interface import PatchType
from dray.controllers.kinds import PODS


async def mark_unready(client: ApiClient, events: EventRecorder, found: Iterable[Object], now: str) -> None:
    for pod in found:
        ready = condition_of(pod, "Ready")
        if ready is None or ready.get("status") != "True":
            continue
        condition = {**ready, "status": "False", "lastTransitionTime": now}
        metadata = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        namespace, name = key_of(pod)
        try:
            await client.patch(
                PODS, name, body, namespace=namespace, patch_type=PatchType.STRATEGIC, subresource="status"
            )
        except ApiError as error:
            if not error.is_not_found:
                raise
        else:
            about = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
            events.warning(about, "NodeNotReady", "Node is not ready")
