"""Heartbeats of simulated nodes, and nodes that fall silent for a while.

A node without heartbeats is ready for as long as its status says so, and costs nothing. Where the fleet asks for
heartbeats, or a rule makes the node fail, it renews a lease as a kubelet does; while it is silent it renews nothing and
does nothing about its pods, and the node lifecycle controller finds out.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, condition_of, metadata_of
from dray.client.cache import Change
from dray.client.clock import micro_timestamp, moment, timestamp
from dray.client.errors import NotFound
from dray.client.interface import PatchType
from dray.controllers.environment import Environment, Workers, named
from dray.fleet.choice import Chosen
from dray.fleet.outages import Outages, soonest
from dray.fleet.publication import NODES

LEASES: Final = built_in("coordination.k8s.io/v1", "Lease")
_NAMESPACE: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
_USUAL: Final = 10.0


class Heartbeats:
    """Sends heartbeats of nodes. `again` is called with the name of a node that works again."""

    def __init__(self, environment: Environment, chosen: Chosen, *, again: Callable[[str], None]) -> None:
        self._client = environment.client
        self._time = environment.time
        self._machines = chosen.by_name()
        self._stages = chosen.stages.nodes
        self._seed = chosen.seed
        self._every = chosen.heartbeat_seconds
        self._again = again
        self._outages: dict[str, list[Outages]] = {}
        self._silent: set[str] = set()
        self._workers: Workers[str] = environment.workers("simulated heartbeats", self.reconcile, called=named("Node"))
        self._nodes = environment.informers.of(NODES)
        if self._every or self._stages:
            self._nodes.add_handler(self._node_changed)

    async def run(self) -> None:
        await self._workers.run()

    def silence(self, name: str) -> float | None:
        """Returns for how many seconds the node stays silent; None if it works."""
        node = self._nodes.cache.get(name)
        if not self._stages or node is None:
            return None
        time = self._since(node)
        silent, change = self._at(name, node, time)
        return max((change or time) - time, 0.05) if silent else None

    def _node_changed(self, change: Change) -> None:
        if change.type == "ADDED" and change.key[1] in self._machines:
            self._workers.queue.add(change.key[1])

    async def reconcile(self, name: str) -> float | None:
        node = self._nodes.cache.get(name)
        if node is None:
            return None
        time = self._since(node)
        silent, change = self._at(name, node, time)
        every = self._every or (_USUAL if self._outages[name] else 0.0)
        if not every:
            return None
        left = max(change - time, 0.05) if change is not None else every
        if silent:
            self._silent.add(name)
            return left
        await self._beat(node, every)
        if name in self._silent:
            self._silent.discard(name)
            self._again(name)
        return min(left, every)

    def _since(self, node: Object) -> float:
        return (self._time.now() - moment(metadata_of(node)["creationTimestamp"])).total_seconds()

    def _at(self, name: str, node: Object, time: float) -> tuple[bool, float | None]:
        if name not in self._outages:
            self._outages[name] = [
                Outages(stage, Random(f"{self._seed}/{name}/{number}"))
                for number, stage in enumerate(self._stages)
                if stage.nodes.fits(node)
            ]
        found = [outage.at(time) for outage in self._outages[name]]
        return any(silent for silent, _ in found), soonest(change for _, change in found)

    async def _beat(self, node: Object, every: float) -> None:
        name, now = node["metadata"]["name"], self._time.now()
        if condition_of(node, "Ready", "True") is None:
            # Somebody called it unknown meanwhile.
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a simulated node"}
            ready["lastTransitionTime"] = timestamp(now)
            body = {"status": {"conditions": [ready]}}
            await self._client.patch(NODES, name, body, patch_type=PatchType.STRATEGIC, subresource="status")
        seconds = max(_LEASE_SECONDS, int(4 * every))
        spec = {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": micro_timestamp(now)}
        try:
            await self._client.patch(LEASES, name, {"spec": spec}, namespace=_NAMESPACE)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": metadata_of(node)["uid"]}
            metadata = {"name": name, "namespace": _NAMESPACE, "ownerReferences": [owner]}
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec})
