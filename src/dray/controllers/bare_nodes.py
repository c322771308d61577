"""Bare nodes: Node objects from a manifest without a kubelet that reports their status and removes deleted pods.

`set_node_status` writes the status of such a node. Its Ready condition has a reason by which the controller recognises
it; all other nodes are left alone.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Key, Object, condition_of, key_of, spec_of
from dray.api.pods import is_terminal
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.interface import Resource, WriteOptions
from dray.controllers.environment import Environment, QueueController, named
from dray.controllers.kinds import NODES, PODS
from dray.controllers.pod_deletion import end_pod
from dray.scheduling.model.node import DEFAULT_CAPACITY

REASON: Final = "SaysManifest"
_NOT_READY: Final = "node.kubernetes.io/not-ready"


def status(node: Object) -> Object:
    """Returns the status of the manifest, with a default capacity and a Ready condition where it has none.

    Heartbeat times are left out. Nobody renews them, so a node that had one would soon count as lost.
    """
    written = node.get("status")
    given: Object = dict(written) if isinstance(written, dict) else {}
    capacity = given.get("capacity") or given.get("allocatable") or dict(DEFAULT_CAPACITY)
    conditions = [_without_heartbeat(condition) for condition in given.get("conditions") or ()]
    if not any(isinstance(condition, dict) and condition.get("type") == "Ready" for condition in conditions):
        conditions.append({"type": "Ready", "status": "True", "reason": REASON, "message": "no agent speaks for it"})
    return {
        **given,
        "capacity": capacity,
        "allocatable": given.get("allocatable") or capacity,
        "conditions": conditions,
    }


def _without_heartbeat(condition: Any) -> Any:
    if not isinstance(condition, dict):
        return condition
    kept = {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
    return {**kept, "reason": REASON} if kept.get("type") == "Ready" else kept


def is_bare(node: Object) -> bool:
    return (condition_of(node, "Ready") or {}).get("reason") == REASON


async def set_node_status(client: ApiClient, resource: Resource, node: Object, options: WriteOptions) -> Object:
    """Writes the status of a node that was just applied, as field manager of the options; gives back what is stored.

    A server taints a node when it is created, until somebody says that it is ready: that is said here.
    """
    given = status(node)
    stored = await client.apply(resource, {**node, "status": given}, subresource="status", options=options)
    taints = spec_of(stored).get("taints") or []
    left = [taint for taint in taints if taint.get("key") != _NOT_READY]
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in given["conditions"]
    )
    if not ready or len(left) == len(taints):
        return stored
    pin = {"resourceVersion": stored["metadata"]["resourceVersion"]}
    return await client.patch(resource, node["metadata"]["name"], {"metadata": pin, "spec": {"taints": left or None}})


class BareNodes(QueueController[Key]):
    """Deletes terminating pods of nodes without a kubelet. Keys are namespace and name of pods."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._workers = environment.workers("bare nodes", self.reconcile, called=named("Pod"))
        self._nodes = environment.informers.of(NODES)
        self._pods = environment.informers.of(PODS)
        self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, change: Change) -> None:
        pod = change.object
        if change.type != "DELETED" and pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName"):
            self._workers.queue.add(key_of(pod))

    async def reconcile(self, key: Key) -> float | None:
        pod = self._pods.cache.get(key[1], namespace=key[0])
        if pod is None or not pod["metadata"].get("deletionTimestamp"):
            return None
        node = self._nodes.cache.get(pod["spec"].get("nodeName") or "")
        if node is None or not is_bare(node):
            return None
        # Who holds on to a pod by a finalizer, as a Job does, may wait to be told how it ended.
        is_held = pod["metadata"].get("finalizers") and not is_terminal(pod)
        await end_pod(self._client, pod, status={"phase": "Failed"} if is_held else None, grace=0)
        return None
