"""`topology`: the sockets, NUMA nodes and PCIe roots of nodes, and the devices on them with their state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dray.allocation import KUBERNETES
from dray.allocation.device_states import DeviceState, device_states
from dray.answers.cluster import Cluster, Told
from dray.answers.devices import listed_devices
from dray.answers.errors import InvalidInput
from dray.answers.explaining.placement import read_cluster
from dray.answers.manifests.given import Manifests, read_given
from dray.answers.manifests.reading import Reading
from dray.answers.manifests.stored import read_objects
from dray.answers.source import Tell
from dray.answers.views.topology_model import Spot, node_spots
from dray.api.objects import Object, key_of
from dray.api.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of some nodes."""

    nodes: Sequence[Spot]

    @property
    def document(self) -> list[Object]:
        """The document that `dray topology -o json` prints."""
        from dray.answers.views.topology_text import document_of

        return [document_of(node) for node in self.nodes]

    @property
    def text(self) -> str:
        from dray.answers.views.topology_text import text_of

        return "".join(f"{line}\n" for node in self.nodes for line in text_of(node))

    @property
    def svg(self) -> str:
        from dray.answers.views.topology_svg import svg_of

        return svg_of(self.nodes)


def topology(cluster: Cluster | None = None, *, node: str = "", manifests: Manifests = ()) -> Topology:
    """Returns the sockets, NUMA nodes and PCIe roots of one node or of all, with their devices.

    Manifests replace the cluster: the devices are those of the manifests, and devices that their pods and claims would
    get are in use. Raises InvalidInput if there is no such node, and ClientError if a server does not answer.
    """
    reading = read_given(manifests)
    if reading.manifests or reading.problems:
        return topology_of(devices_of_reading(reading, Told().tell), node)
    return topology_of((cluster or Cluster.from_kubeconfig()).ask(listed_devices), node)


def topology_of(states: list[DeviceState], node: str) -> Topology:
    """Returns the topology of one node, or of all if `node` is empty. Raises InvalidInput if there are no devices."""
    nodes = node_spots(states)
    found = [spot for spot in nodes if node in ("", spot.name)]
    if not found:
        known = f"; {suggestion(node, [spot.name for spot in nodes])}" if nodes else ""
        raise InvalidInput([f"error: no devices {f'on node {node}' if node else 'on any node'}{known}"])
    return Topology(found)


def devices_of_reading(reading: Reading, tell: Tell) -> list[DeviceState]:
    """Returns the devices in manifests after all pods and claims that fit are placed."""
    cluster = read_cluster(reading, KUBERNETES, "", (), {}, tell)
    stored = read_objects(reading.manifests)
    claims = {key_of(claim): claim for claim in stored.of("ResourceClaim")}
    pods = []
    for placement in map(cluster.place, cluster.wanted):
        claims |= {key: _claim(*key, allocation) for key, allocation in placement.allocations.items()}
        if placement.fits and placement.wanted.kind == "pod":
            pods.append(placement.wanted.pod)
    return device_states(stored.of("ResourceSlice"), claims.values(), pods, stored.of("DeviceTaintRule"))


def _claim(namespace: str, name: str, allocation: Object) -> Object:
    return {"metadata": {"namespace": namespace, "name": name}, "status": {"allocation": allocation}}
