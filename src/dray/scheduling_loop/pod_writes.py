"""PodWriter: writes to pods: bindings, the reasons why pods wait, and evictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from dray.api import pod_queues
from dray.api.objects import Object, condition_of
from dray.client.api import ApiClient
from dray.client.clock import timestamp
from dray.client.errors import ApiError, ClientError, Conflict, ConnectionFailed, Garbled, NotFound
from dray.client.retries import Retries
from dray.scheduling.model.pod import Pod
from dray.scheduling_loop.feed import PODS


class Elsewhere(ClientError):
    """Raised if another client bound the pod to another node."""


class PodWriter:
    def __init__(
        self, client: ApiClient, name: str, now: Callable[[], datetime], retries: Retries | None = None
    ) -> None:
        self._client = client
        self._name = name
        self._now = now
        self._retries = retries or Retries()

    async def bind(self, pod: Pod, node: str, queues: Mapping[str, str] | None = None) -> None:
        """Binds the pod; `queues` are the queues that it is charged to, which are recorded in an annotation.

        Raises ClientError only if it is certain that the pod is not on the node; Elsewhere if it is on another node.
        """
        body = _binding(pod, node, queues or {})
        failures, uncertain = 0, False
        while True:
            refusal: ClientError
            try:
                await self._client.create(PODS, body, namespace=pod.key[0], name=pod.key[1], subresource="binding")
                return
            except ApiError as error:
                # Too many requests: this does not tell whether an earlier write was carried out.
                refusal, uncertain = error, error.is_server_fault or (uncertain and error.is_too_many_requests)
            except (ConnectionFailed, Garbled) as error:
                refusal, uncertain = error, True
            # The answer may have been lost, and a repeated write refused because the first one succeeded.
            found = await self._place(pod)
            if found == node:
                return
            if found:
                raise Elsewhere(f"pod {pod.key[0]}/{pod.key[1]} is on {found} already")
            if not uncertain or found is None:
                raise refusal
            failures += 1
            await self._retries.pause(failures)

    async def _place(self, pod: Pod) -> str | None:
        """Reads the node of the pod, and retries until the server answers. Returns None if the pod was deleted."""
        failures = 0
        while True:
            try:
                found = await self._client.get(PODS, pod.key[1], namespace=pod.key[0])
            except NotFound:
                return None
            except ApiError as error:
                if not (error.is_server_fault or error.is_too_many_requests):
                    raise
            except (ConnectionFailed, Garbled):
                pass
            else:
                return str(found["spec"].get("nodeName") or "") if found["metadata"]["uid"] == pod.uid else None
            failures += 1
            await self._retries.pause(failures)

    async def explain(self, pod: Pod, reason: str, message: str, nominated: str = "") -> None:
        """Writes to the pod's status why it is not scheduled, and its nominated node, if any."""
        known = condition_of(pod.document, "PodScheduled") or {}
        status: dict[str, Any] = {}
        wanted = {"status": "False", "reason": reason, "message": message, **_observed(pod)}
        if any(known.get(member) != value for member, value in wanted.items()):
            condition = {"type": "PodScheduled", **wanted}
            if known.get("status") != "False":
                condition["lastTransitionTime"] = timestamp(self._now())
            status["conditions"] = [condition]
        if nominated:
            status["nominatedNodeName"] = nominated
        if status:
            await self.patch_status(pod, status)

    async def evict(self, victim: Pod, reason: str = "", *, stopped: str = "") -> None:
        """Evicts the pod for the given reason, or because its queue `stopped` is stopped.

        Without a reason the message is that of kube-scheduler.
        """
        for_pod = f"preempting: {reason}" if reason else "preempting to accommodate a higher priority pod"
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": f"{stopped.split()[0]}Stopped" if stopped else "PreemptionByScheduler",
            "message": f"{self._name}: {f'{stopped} is stopped' if stopped else for_pod}",
            **_observed(victim),
            "lastTransitionTime": timestamp(self._now()),
        }
        try:
            await self.patch_status(victim, {"conditions": [condition]})
            await self._client.delete_object(PODS, victim.document)
        except NotFound:
            pass
        except Conflict:
            # The pod was replaced by another of its name, or another client changed it at the same time.
            if await self._place(victim) is not None:
                raise

    async def patch_status(self, pod: Pod, status: Mapping[str, Any]) -> Object:
        return await self._client.patch_status(PODS, pod.document, status)


def _binding(pod: Pod, node: str, queues: Mapping[str, str]) -> Object:
    metadata: Object = {"namespace": pod.key[0], "name": pod.key[1], "uid": pod.uid}
    if queues:
        metadata["annotations"] = {pod_queues.RECORD: pod_queues.record(pod.document, queues)}
    elif pod_queues.RECORD in pod.annotations:
        # The pod is in no queue: a record that a user wrote is removed.
        metadata["annotations"] = {pod_queues.RECORD: ""}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _observed(pod: Pod) -> Object:
    """Returns the observedGeneration of a condition of the pod."""
    generation = pod.document["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}
