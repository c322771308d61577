"""Where the devices of a node sit: sockets, NUMA nodes, PCIe roots, and on them devices with who holds them.

The places come from attributes of the devices alone: `numaNode` and `pcieRoot` of the standard domain, and the socket
that the CPUs of a NUMA node are on. A device without NUMA node is below the node itself. Partitions are below the
device whose uuid is their `parentUUID`. GPUs that NVLink joins are told by the attributes that say so.
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
    """A device, and the partitions that can be made of it."""

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
    """Of a node: what joins devices, and their names."""

    def all_entries(self) -> list[Entry]:
        return [*self.entries, *(each for spot in self.spots for each in spot.all_entries())]


def node_spots(states: Iterable[DeviceState]) -> list[Spot]:
    """One for each node that has devices, by name."""
    by_node: dict[str, list[DeviceState]] = defaultdict(list)
    for state in states:
        if state.node:
            by_node[state.node].append(state)
    return [_node(name, found) for name, found in sorted(by_node.items())]


def _node(name: str, states: list[DeviceState]) -> Spot:
    node = Spot("node", name)
    sockets = _sockets(states)
    homes = _homes(states)
    made: dict[tuple[str, ...], Spot] = {}

    def spot(kind: str, name: str, above: Spot) -> Spot:
        key = (above.kind, above.name, kind, name)
        if key not in made:
            made[key] = Spot(kind, name)
            above.spots.append(made[key])
        return made[key]

    for entry in _entries([each for each in states if each.place[0] != _DOMAIN_DRIVER]):
        root, numa = place(entry.state.document)
        is_cpu = entry.state.place[0] == _CPU_DRIVER
        root = _NOTHING if is_cpu else root
        numa = numa if numa != _NOTHING else homes.get(root, _NOTHING)
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


def _sockets(states: list[DeviceState]) -> dict[str, str]:
    """The socket of each NUMA node that CPUs tell."""
    found = ((place(each.document)[1], attribute(each.document, _SOCKET)) for each in states)
    return {numa: socket for numa, socket in found if _NOTHING not in (numa, socket)}


def _homes(states: list[DeviceState]) -> dict[str, str]:
    """The NUMA node of each PCIe root, for devices that tell their root alone."""
    found = (place(each.document) for each in states if each.place[0] != _CPU_DRIVER)
    return {root: numa for root, numa in found if _NOTHING not in (root, numa)}


def _entries(states: list[DeviceState]) -> list[Entry]:
    """Partitions go below their device; where that is not offered itself they stand for themselves."""
    whole = {attribute(each.document, "uuid"): each for each in states}
    parts: dict[str, list[DeviceState]] = defaultdict(list)
    alone = []
    for each in states:
        parent = attribute(each.document, "parentUUID")
        if parent != _NOTHING and parent in whole and whole[parent] is not each:
            parts[parent].append(each)
        else:
            alone.append(each)
    return [Entry(each, tuple(parts.get(attribute(each.document, "uuid"), ()))) for each in alone]


def _links(states: list[DeviceState]) -> list[tuple[str, tuple[str, ...]]]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in states:
        for name in _SWITCHED:
            value = attribute(each.document, name)
            if value != _NOTHING:
                groups[f"NVLink, {name} {value}", ""].append(each.place[2])
    found = [(title, tuple(names)) for (title, _), names in groups.items()]
    if any(each.place[0] == _DOMAIN_DRIVER for each in states):
        gpus = tuple(each.place[2] for each in states if attribute(each.document, "type") == "gpu")
        found.append(("NVLink domain over several nodes", gpus))
    return found


def _sort(spot: Spot) -> None:
    spot.spots.sort(key=lambda each: (each.kind, len(each.name), each.name))
    # CPUs first; GPUs before NICs, as people look for them.
    spot.entries.sort(key=lambda each: (each.state.place[0] != _CPU_DRIVER, _is_nic(each), *each.state.place[:2]))
    for each in spot.spots:
        _sort(each)


def _is_nic(entry: Entry) -> bool:
    return any(name.startswith("dra.net/") for name in mapping(entry.state.document.get("attributes")))


def what(entry: Entry) -> str:
    """Kind of the device, unless that is its name."""
    found = kind(entry.state.document)
    return "" if found in (_NOTHING, entry.name) else found
