"""What is written to pods: the binding, why one waits, and the removal of those that make room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dray.client.clock import timestamp
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.interface import Client, DeleteOptions, Object, PatchType
from dray.scheduler.feed import PODS
from dray.scheduling.model import Pod


class PodWriter:
    def __init__(self, client: Client, name: str, now: Callable[[], datetime]) -> None:
        self._client = client
        self._name = name
        self._now = now

    async def bind(self, pod: Pod, node: str) -> None:
        """Raises ClientError where the pod is not on the node afterwards, as far as can be told."""
        namespace, name = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._client.create(PODS, body, namespace=namespace, name=name, subresource="binding")
        except (ApiError, ConnectionFailed):
            # The answer may have been lost, and a repetition refused since the first time did it.
            if not await self._is_on(pod, node):
                raise

    async def _is_on(self, pod: Pod, node: str) -> bool:
        try:
            found = await self._client.get(PODS, pod.key[1], namespace=pod.key[0])
        except ApiError:
            return False
        return bool(found["metadata"]["uid"] == pod.uid and found["spec"].get("nodeName") == node)

    async def explain(self, pod: Pod, reason: str, message: str, nominated: str = "") -> None:
        """Says in the pod's status why it is not on a node yet."""
        known = _condition(pod.document, "PodScheduled")
        status: dict[str, Any] = {}
        if (known.get("status"), known.get("reason"), known.get("message")) != ("False", reason, message):
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            if known.get("status") != "False":
                condition["lastTransitionTime"] = timestamp(self._now())
            status["conditions"] = [condition]
        if nominated:
            status["nominatedNodeName"] = nominated
        if status:
            await self.patch_status(pod, status)

    async def evict(self, victim: Pod) -> None:
        """Asks the victim to go, in its own time."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(self._now()),
        }
        try:
            await self.patch_status(victim, {"conditions": [condition]})
            options = DeleteOptions(uid=victim.uid)
            await self._client.delete(PODS, victim.key[1], namespace=victim.key[0], options=options)
        except ApiError as error:
            # Gone already, or replaced by another of its name.
            if not (error.is_not_found or error.is_conflict):
                raise

    async def patch_status(self, pod: Pod, status: Mapping[str, Any]) -> Object:
        return await self._client.patch(
            PODS,
            pod.key[1],
            {"metadata": {"uid": pod.uid}, "status": status},
            namespace=pod.key[0],
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )


def _condition(document: Object, type_: str) -> Object:
    conditions: list[Object] = (document.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == type_), {})
