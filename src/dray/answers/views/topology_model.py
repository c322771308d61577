"""The topology of a node: sockets, NUMA nodes and PCIe roots, and the devices on them.

The topology is read from attributes of the devices alone: `numaNode` and `pcieRoot` of the standard domain, and the
socket of the CPUs of a NUMA node. A device without a NUMA node is placed below the node itself. A partition is below
the device whose uuid is its `parentUUID`. Links of NVLink are read from the attributes of GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from dray.allocation.device_states import DeviceState
from dray.answers.views.device_facts import attribute, kind, place
from dray.api.objects import mapping

_NOTHING: Final = "-"
_CPU_DRIVER: Final = "dra.cpu"
_SOCKET: Final = "dra.cpu/socketID"
_DOMAIN_DRIVER: Final = "compute-domain.nvidia.com"
_SWITCHED: Final = tuple(f"partition{size}" for size in (8, 4, 2))


@dataclass(frozen=True, slots=True)
class Entry:
    """A device and its partitions."""

    state: DeviceState
    parts: tuple[DeviceState, ...] = ()

    @property
    def name(self) -> str:
        return self.state.place[2]


@dataclass(slots=True)
class Spot:
    """A node, a socket, a NUMA node or a PCIe root, with what is on it."""

    kind: str
    name: str
    spots: list[Spot] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    links: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """The links between devices of a node: a title, and the names of the devices."""

    def all_entries(self) -> list[Entry]:
        """Returns the devices here and on all spots below."""
        return [*self.entries, *(entry for spot in self.spots for entry in spot.all_entries())]


def node_spots(states: Iterable[DeviceState]) -> list[Spot]:
    """Returns the nodes that have devices, sorted by name."""
    by_node: dict[str, list[DeviceState]] = defaultdict(list)
    for state in states:
        if state.node:
            by_node[state.node].append(state)
    return [_node(name, found) for name, found in sorted(by_node.items())]


def _node(name: str, states: list[DeviceState]) -> Spot:
    node = Spot("node", name)
    sockets = _sockets_by_numa(states)
    numa_by_root = _numa_by_root(states)
    made: dict[tuple[str, ...], Spot] = {}

    def spot(kind: str, name: str, above: Spot) -> Spot:
        key = (above.kind, above.name, kind, name)
        if key not in made:
            made[key] = Spot(kind, name)
            above.spots.append(made[key])
        return made[key]

    for entry in _entries([state for state in states if state.place[0] != _DOMAIN_DRIVER]):
        root, numa = place(entry.state.document)
        is_cpu = entry.state.place[0] == _CPU_DRIVER
        root = _NOTHING if is_cpu else root
        numa = numa if numa != _NOTHING else numa_by_root.get(root, _NOTHING)
        below = node
        socket = sockets.get(numa, attribute(entry.state.document, _SOCKET) if is_cpu else _NOTHING)
        if socket != _NOTHING:
            below = spot("socket", socket, below)
        if numa != _NOTHING:
            below = spot("numa", numa, below)
        if root != _NOTHING:
            below = spot("root", root, below)
        below.entries.append(entry)
    _sort(node)
    node.links = _links(states)
    return node


def _sockets_by_numa(states: list[DeviceState]) -> dict[str, str]:
    """Returns the socket of each NUMA node, from the attributes of CPUs."""
    found = ((place(state.document)[1], attribute(state.document, _SOCKET)) for state in states)
    return {numa: socket for numa, socket in found if _NOTHING not in (numa, socket)}


def _numa_by_root(states: list[DeviceState]) -> dict[str, str]:
    """Returns the NUMA node of each PCIe root, for devices that have no attribute for the NUMA node."""
    found = (place(state.document) for state in states if state.place[0] != _CPU_DRIVER)
    return {root: numa for root, numa in found if _NOTHING not in (root, numa)}


def _entries(states: list[DeviceState]) -> list[Entry]:
    """Returns the devices with their partitions; a partition whose device is not published is an entry of its own."""
    whole = {attribute(state.document, "uuid"): state for state in states}
    parts: dict[str, list[DeviceState]] = defaultdict(list)
    alone = []
    for state in states:
        parent = attribute(state.document, "parentUUID")
        if parent != _NOTHING and parent in whole and whole[parent] is not state:
            parts[parent].append(state)
        else:
            alone.append(state)
    return [Entry(state, tuple(parts.get(attribute(state.document, "uuid"), ()))) for state in alone]


def _links(states: list[DeviceState]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the links between devices of a node, each with the names of its devices."""
    groups: dict[str, list[str]] = defaultdict(list)
    for state in states:
        for name in _SWITCHED:
            value = attribute(state.document, name)
            if value != _NOTHING:
                groups[f"NVLink, {name} {value}"].append(state.place[2])
    found = [(title, tuple(names)) for title, names in groups.items()]
    if any(state.place[0] == _DOMAIN_DRIVER for state in states):
        gpus = tuple(state.place[2] for state in states if attribute(state.document, "type") == "gpu")
        found.append(("NVLink domain over several nodes", gpus))
    return found


def _sort(spot: Spot) -> None:
    spot.spots.sort(key=lambda child: (child.kind, len(child.name), child.name))
    # CPUs come first, and GPUs before NICs, because people look for them.
    spot.entries.sort(key=lambda entry: (entry.state.place[0] != _CPU_DRIVER, _is_nic(entry), *entry.state.place[:2]))
    for child in spot.spots:
        _sort(child)


def _is_nic(entry: Entry) -> bool:
    return any(name.startswith("dra.net/") for name in mapping(entry.state.document.get("attributes")))


def kind_text(entry: Entry) -> str:
    """Returns the kind of the device; empty if its name says the same."""
    found = kind(entry.state.document)
    return "" if found in (_NOTHING, entry.name) else found
