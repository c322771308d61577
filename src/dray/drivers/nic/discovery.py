"""Discovery: the interfaces and RDMA devices of this machine, each offered or left out with the reason.

An interface that the machine itself needs is never offered: one that a default route leads over, that has an address
of the node, that belongs to another interface or carries others. So is the whole family of such an interface: moving a
port of the bridge that carries the default route cuts the machine off as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from dray.drivers.devices.nic import Nic
from dray.drivers.nic import ebpf, pci_names
from dray.drivers.nic.links import Address, Link, default_route_links, netlink, read_addresses, read_links
from dray.drivers.nic.options import NicOptions
from dray.drivers.nic.sysfs import NetworkFunction, pci_address, read_functions, speed

_NAMES: Final = ("docker0", "cilium_*")
_UNIVERSE: Final = 0
# Kinds that the kernel keeps in the network in which they were made.
_IMMOVABLE: Final = frozenset({"bridge", "bond", "team", "vrf", "hsr", "batadv", "openvswitch"})


@dataclass(frozen=True, slots=True)
class Found:
    """`obstacle` says why it is not offered; empty where it is. `link` is None for a function without interface."""

    nic: Nic
    link: Link | None = None
    addresses: Sequence[Address] = ()
    obstacle: str = ""

    @property
    def label(self) -> str:
        return self.nic.interface or self.nic.rdma_device or self.nic.pci_bus_id


@dataclass(frozen=True, slots=True)
class Interfaces:
    """Everything that netlink tells of them."""

    links: Sequence[Link]
    addresses: Mapping[int, Sequence[Address]]
    default_routes: Collection[int]
    tc_filters: Mapping[int, Sequence[str]] = field(default_factory=dict)
    tcx_programs: Mapping[int, Sequence[str]] = field(default_factory=dict)


def read_interfaces() -> Interfaces:
    """Reads the interfaces of the calling thread's network namespace."""
    with netlink() as connection:
        links = read_links(connection)
        return Interfaces(
            links,
            read_addresses(connection),
            default_route_links(connection),
            {link.index: _filters(connection, link.index) for link in links},
            {link.index: _programs(link.index) for link in links},
        )


def _filters(connection: Any, index: int) -> list[str]:
    from pyroute2.netlink.exceptions import NetlinkError

    # An interface that has gone since, or cannot have any.
    with suppress(NetlinkError):
        return ebpf.tc_filter_names(connection, index)
    return []


def _programs(index: int) -> list[str]:
    # Without the right to ask.
    with suppress(OSError):
        return ebpf.tcx_program_names(index)
    return []


def discover(interfaces: Interfaces, options: NicOptions, node_addresses: Iterable[str] = ()) -> list[Found]:
    """In the order of their names."""
    own = [text for text in (*options.node_addresses.split(","), *node_addresses) if text.strip()]
    obstacles = _Obstacles(interfaces, options, {ip_address(text.strip()) for text in own})
    functions = read_functions(options.sysfs)
    found: list[Found] = []
    seen: set[str] = set()
    for link in interfaces.links:
        address = link.parent if link.parent in functions else pci_address(options.sysfs, link.name)
        function = functions.get(address)
        if function is not None and link.encapsulation == "infiniband" and not options.move_ib_interfaces:
            # Its function is offered as an RDMA device without interface.
            continue
        nic = _interface(link, interfaces, function, address, options)
        obstacle = obstacles.of(link) or (function.obstacle if function is not None else "")
        if not obstacle and address in seen:
            obstacle = f"another interface of {address} is offered under that name"
        seen |= {address} - {""}
        found.append(Found(nic, link, interfaces.addresses.get(link.index, ()), obstacle))
    for address, function in functions.items():
        if address not in seen:
            found.append(Found(_function(function), obstacle=function.obstacle or _without_use(function)))
    return sorted(found, key=lambda each: each.nic.name)


def _interface(
    link: Link, interfaces: Interfaces, function: NetworkFunction | None, address: str, options: NicOptions
) -> Nic:
    base = _function(function) if function is not None else Nic(pci_bus_id=address)
    given = [assigned for assigned in interfaces.addresses.get(link.index, ()) if assigned.scope == _UNIVERSE]
    filters, programs = interfaces.tc_filters.get(link.index, ()), interfaces.tcx_programs.get(link.index, ())
    return msgspec.structs.replace(
        base,
        interface=link.name,
        mac=link.mac,
        mtu=link.mtu,
        speed=None if link.kind else speed(options.sysfs, link.name),
        type=link.type,
        encapsulation=link.encapsulation,
        state=link.state,
        alias=link.alias,
        ipv4=tuple(str(each) for each in given if each.version == 4),
        ipv6=tuple(str(each) for each in given if each.version == 6),
        virtual=not address and not (options.sysfs / "class/net" / link.name / "device").exists(),
        ebpf=bool(filters or programs),
        tc_filters=tuple(filters),
        tcx_programs=tuple(programs),
    )


def _function(function: NetworkFunction) -> Nic:
    pci = function.pci
    vendor, device = pci_names.names(pci.vendor.removeprefix("0x"), pci.device.removeprefix("0x"))
    return Nic(
        pci_bus_id=pci.address,
        pcie_root=pci.root,
        numa_node=pci.numa_node,
        vendor=vendor,
        device=device,
        subsystem=pci.subsystem_device.removeprefix("0x"),
        rdma=bool(function.rdma_devices),
        rdma_device=next(iter(function.rdma_devices), ""),
        virtual_functions=function.virtual_functions,
        virtual_function=bool(function.physical_function),
    )


def _without_use(function: NetworkFunction) -> str:
    return "" if function.rdma_devices else "it has neither an interface nor an RDMA device here"


class _Obstacles:
    def __init__(self, interfaces: Interfaces, options: NicOptions, node_addresses: set[Any]) -> None:
        self._interfaces = interfaces
        self._options = options
        self._node_addresses = node_addresses
        self._by_index = {link.index: link for link in interfaces.links}
        self._uplinks = self._family(interfaces.default_routes)

    def of(self, link: Link) -> str:
        if link.is_loopback:
            return "it is a loopback interface"
        if link.index in self._interfaces.default_routes:
            return "a default route leads over it"
        if link.index in self._uplinks:
            return "it belongs to an interface that a default route leads over"
        for assigned in self._interfaces.addresses.get(link.index, ()):
            if ip_address(assigned.address) in self._node_addresses:
                return f"it has the address {assigned.address} of the node"
        if link.master:
            return f"it belongs to {self._name(link.master)}"
        if carried := [other.name for other in self._interfaces.links if link.index in (other.master, other.lies_on)]:
            return f"it carries {', '.join(carried)}"
        if link.kind in _IMMOVABLE:
            return f"an interface of type {link.kind} cannot leave the network of the host"
        return self._by_choice(link)

    def _by_choice(self, link: Link) -> str:
        ignored = NicOptions(interfaces=",".join(_NAMES))
        if ignored.offers(link.name):
            return "it is part of the network of containers"
        if self._options.excludes_type(link.type):
            return f"interfaces of type {link.type} are left out (excludeTypes)"
        if not self._options.offers(link.name):
            return "its name is left out (interfaces, excludeInterfaces)"
        return ""

    def _family(self, roots: Iterable[int]) -> set[int]:
        """Adds the interfaces that these belong to or lie on, recursively."""
        family = set(roots)
        while True:
            below = {self._by_index[index].lies_on for index in family if index in self._by_index}
            ports = {link.index for link in self._interfaces.links if link.master in family}
            if (below | ports) - {0} <= family:
                return family
            family |= (below | ports) - {0}

    def _name(self, index: int) -> str:
        return self._by_index[index].name if index in self._by_index else f"interface {index}"
