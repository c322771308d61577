"""Slices of TPUs over several machines, as pools that their machines reach: one driver for a cluster, `tpu-slices`.

Nodes that carry the same value of a label are the hosts of one slice, and their labels tell its topology. A slice whose
hosts are all there is published as one device in a pool of its own, with a node selector over that label. A claim for
it that the pods of a group share keeps all of them on the hosts of one slice. On each host the driver of the machine
prepares the claim, with `mode=slice`; a slice one of whose hosts gives its chips away by itself is not published, since
nothing would keep a chip from being given away twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from dray.api.catalogue import built_in
from dray.api.objects import Object, labels_of, mappings, metadata_of, spec_of, status_of, text
from dray.client.api import ApiClient
from dray.client.cache import Change
from dray.client.errors import ClientError
from dray.client.informer import Informer
from dray.client.interface import Selection
from dray.driver import AllocatedDevice, ClaimFailed, Driver, DriverError, Pool
from dray.drivers.devices.tpu import DRIVER, SLICE_DEVICE
from dray.drivers.devices.tpu_generations import ACCELERATORS
from dray.drivers.devices.tpu_pools import pool_name, slice_pool
from dray.drivers.devices.tpu_topology import chips_in, commas
from dray.drivers.tpu.description import Description, from_labels
from dray.drivers.tpu.options import TpuSlicesOptions
from dray.process.tasks import end_tasks

NODES: Final = built_in("v1", "Node")
SLICES: Final = built_in("resource.k8s.io/v1", "ResourceSlice")
_logger = logging.getLogger(__name__)


class TpuSlices(Driver):
    """Slices of TPUs over several machines."""

    name = DRIVER
    of_node = False
    Options = TpuSlicesOptions

    def __init__(self, options: TpuSlicesOptions | None = None) -> None:
        self._label = (options or TpuSlicesOptions()).slice_label
        self._nodes: Informer | None = None
        self._slices: Informer | None = None
        self._said: dict[str, str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        client = self.context.client
        self._nodes = Informer(client, NODES, selection=Selection(labels=self._label))
        self._slices = Informer(client, SLICES, selection=Selection(fields=f"spec.driver={DRIVER}"))
        for informer in (self._nodes, self._slices):
            informer.add_handler(self._changed)
            self._tasks.append(asyncio.create_task(informer.run(), name=f"{DRIVER}: watch"))

    async def stop(self) -> None:
        await end_tasks(self._tasks)

    def _changed(self, change: Change) -> None:
        # Heartbeats and the slices that it has published itself change nothing.
        before = change.previous
        if change.type == "MODIFIED" and before is not None and _told(before) == _told(change.object):
            return
        if "nodeName" in spec_of(change.object) or change.object.get("kind") != "ResourceSlice":
            self.context.publish()

    async def pools(self) -> Sequence[Pool]:
        if self._nodes is None or self._slices is None:
            raise DriverError("it publishes what the nodes of a cluster say: run it, there is nothing to inspect here")
        await self._nodes.synced()
        await self._slices.synced()
        groups: dict[str, list[Object]] = defaultdict(list)
        for node in self._nodes.cache:
            groups[str(labels_of(node)[self._label])].append(node)
        giving = {spec_of(slice_).get("nodeName") for slice_ in self._slices.cache if spec_of(slice_).get("devices")}
        made = [self._pool(name, nodes, giving) for name, nodes in sorted(groups.items())]
        return [pool for pool in made if pool is not None]

    def _pool(self, name: str, nodes: list[Object], giving: set[object]) -> Pool | None:
        found = {from_labels(labels_of(node), "") for node in nodes}
        described = next(iter(found))
        problem = _problem(found)
        hosts = 0 if problem else chips_in(described.topology) // described.count
        if not problem and hosts < 2:
            return None
        if not problem and len(nodes) != hosts:
            problem = f"{len(nodes)} of {hosts} hosts are there"
        own = sorted(node["metadata"]["name"] for node in nodes if node["metadata"]["name"] in giving)
        if not problem and own:
            problem = f"host {own[0]} gives its chips away by itself; run its driver with mode=slice"
        if problem:
            self._say(name, f"TPU slice {name} is not published: {problem}")
            return None
        self._say(name, f"TPU slice {name}: {described.topology} over {hosts} hosts")
        return slice_pool(name, self._label, described.accelerator, described.topology, hosts)

    def _say(self, name: str, message: str) -> None:
        """Logs the message, unless it was the last one for this name."""
        if self._said.get(name) != message:
            self._said[name] = message
            _logger.info("%s", message)


def _problem(found: set[Description]) -> str:
    if len(found) > 1:
        return "its hosts have different labels for accelerator, topology or number of chips"
    described = next(iter(found))
    if described.accelerator not in ACCELERATORS or not described.count:
        return f"accelerator {described.accelerator!r} with {described.count} chips a host is not known"
    try:
        return "" if chips_in(described.topology) % described.count == 0 else "its hosts do not fill its topology"
    except ValueError as error:
        return str(error)


def _told(each: Object) -> tuple[object, object]:
    return labels_of(each), bool(spec_of(each).get("devices"))


async def worker_environment(
    client: ApiClient, node: str, devices: Sequence[AllocatedDevice], label: str, *, named: bool
) -> dict[str, str]:
    """Returns the TPU_WORKER variables, empty unless `named`. Raises ClaimFailed if the claim has another slice than
    this host."""
    pools = {device.pool for device in devices if device.device == SLICE_DEVICE}
    if not pools and not named:
        return {}
    try:
        own = str(labels_of(await client.get(NODES, node)).get(label) or "")
        wrong = pools - {pool_name(own)}
        if wrong:
            raise ClaimFailed(
                f"the claim has {wrong.pop()}, and node {node} belongs to slice {own or 'none'} ({label})"
            )
        if not named or not own:
            return {}
        listed = await client.list_all(NODES, selection=Selection(labels=f"{label}={own}"))
    except ClientError as error:
        raise ClaimFailed(f"the hosts of the slice cannot be read: {error}") from error
    hosts = sorted(mappings(listed["items"]), key=lambda each: str(metadata_of(each)["name"]))
    names = [str(metadata_of(host)["name"]) for host in hosts]
    return {"TPU_WORKER_ID": str(names.index(node)), "TPU_WORKER_HOSTNAMES": commas(map(_address, hosts))}


def _address(node: Object) -> str:
    addresses = {
        text(address.get("type")): text(address.get("address"))
        for address in mappings(status_of(node).get("addresses"))
    }
    return addresses.get("InternalIP") or str(metadata_of(node)["name"])
