"""The node lifecycle controller: conditions of nodes without heartbeat, and taints that follow from conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, condition_of, spec_of
from dray.client.cache import Change
from dray.client.clock import timestamp
from dray.client.errors import NotFound
from dray.controllers.environment import Environment, Workers, named
from dray.controllers.kinds import NODES, PODS
from dray.controllers.node_lifecycle import health
from dray.controllers.node_lifecycle.evictions import Evictions
from dray.controllers.node_lifecycle.health import LEASES, Heartbeats, renewed
from dray.controllers.pod_deletion import BY_NODE, node_of

GRACE: Final = 50.0
STARTUP_GRACE: Final = 60.0


class NodeLifecycle:
    """Keyed by the names of nodes. The grace periods are how long a node may be silent; the second is for one that
    has not said yet whether it is ready."""

    def __init__(
        self, environment: Environment, *, grace_period: float = GRACE, startup_grace_period: float = STARTUP_GRACE
    ) -> None:
        self._client = environment.client
        self._time = environment.time
        self._events = environment.events
        self._grace = grace_period
        self._startup_grace = startup_grace_period
        self._workers: Workers[str] = environment.workers("node lifecycle", self.reconcile, called=named("Node"))
        self._lease_kind = built_in("coordination.k8s.io/v1", "Lease")
        leases = environment.informers.of(self._lease_kind)
        self._heartbeats = Heartbeats(leases.cache, self._time)
        self._evictions = Evictions(environment)
        self._nodes = environment.informers.of(NODES)
        self._pods = environment.informers.of(PODS, {BY_NODE: node_of})
        leases.add_handler(self._lease_changed)
        self._nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workers.run(), name="node lifecycle: nodes")
            group.create_task(self._evictions.run(), name="node lifecycle: pods")

    def look(self, name: str) -> None:
        """Queues the node at once."""
        self._workers.queue.add(name)

    def _lease_changed(self, change: Change) -> None:
        if self._heartbeats.lease_changed(change):
            self._workers.queue.add(change.key[1])

    def _node_changed(self, change: Change) -> None:
        self._heartbeats.node_changed(change)
        self._evictions.node_changed(change)
        if change.type != "DELETED" and (change.previous is None or _differs(change.previous, change.object)):
            self._workers.queue.add(change.key[1])

    async def reconcile(self, name: str) -> float | None:
        node = self._nodes.cache.get(name)
        if node is None:
            return None
        try:
            node, again = await self._listen(node)
            await self._taint(node)
            if health.statuses(node).get("Ready") == "Unknown" and self._heartbeats.has_pulse(node):
                await self._mark_unready(self._pods.cache.by(BY_NODE, name))
        except NotFound:
            return None
        return again

    async def _listen(self, node: Object) -> tuple[Object, float | None]:
        """Marks a silent node as Unknown. Returns the node, and the seconds until its grace period ends."""
        if not self._heartbeats.has_pulse(node):
            return node, None
        name = node["metadata"]["name"]
        grace = self._grace if "Ready" in health.statuses(node) else self._startup_grace
        left = grace - self._heartbeats.silence(name)
        if left > 0:
            return node, left
        changed = health.silenced(node, timestamp(self._time.now()))
        if not changed:
            # Whoever speaks again says how the node is, and that is seen.
            return node, None
        if await self._renewed_unseen(name):
            self._heartbeats.heard(name)
            return node, grace
        was_ready = health.statuses(node).get("Ready") == "True"
        node = await self._client.patch_status(NODES, node, {"conditions": changed}, pinned=True)
        if was_ready:
            self._events.normal(
                {"apiVersion": "v1", "kind": "Node", "metadata": node["metadata"]},
                "NodeNotReady",
                f"Node {name} status is now: NodeNotReady",
            )
        return node, None

    async def _renewed_unseen(self, name: str) -> bool:
        """Whether the server has a newer lease than was seen here: the watch may be what is silent."""
        known = self._heartbeats.lease(name)
        if known is None:
            return False
        try:
            live = await self._client.get(self._lease_kind, name, namespace=LEASES)
        except NotFound:
            return False
        return renewed(live) != renewed(known)

    async def _taint(self, node: Object) -> None:
        taints = health.taints(node, timestamp(self._time.now()))
        if taints is not None:
            # What was decided holds for the node as it was read, and for no other.
            pin = {"uid": node["metadata"]["uid"], "resourceVersion": node["metadata"]["resourceVersion"]}
            body = {"metadata": pin, "spec": {"taints": taints or None}}
            await self._client.patch(NODES, node["metadata"]["name"], body)

    async def _mark_unready(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            ready = condition_of(pod, "Ready", "True")
            if ready is None:
                continue
            condition = {**ready, "status": "False", "lastTransitionTime": timestamp(self._time.now())}
            with suppress(NotFound):
                await self._client.patch_status(PODS, pod, {"conditions": [condition]}, pinned=True)
                about = {"apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"]}
                self._events.warning(about, "NodeNotReady", "Node is not ready")


def _differs(before: Object, now: Object) -> bool:
    """Returns True if the nodes differ in more than a heartbeat."""
    was, is_ = spec_of(before), spec_of(now)
    return (
        was.get("taints") != is_.get("taints")
        or was.get("unschedulable") != is_.get("unschedulable")
        or health.statuses(before) != health.statuses(now)
    )
