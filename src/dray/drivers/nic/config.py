"""Opaque configuration of a claim for `dra.net`: parameters without apiVersion and kind, decoded strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_interface, ip_network
from typing import ClassVar, Final

import msgspec

from dray.driver import Config
from dray.drivers.nic import reachability

_SMALLEST_MTU: Final = 68
# The kernel has 32 bits for tables, and one less for an MTU.
_LARGEST_TABLE: Final = (1 << 32) - 1
_LARGEST_MTU: Final = (1 << 31) - 1
_LONGEST_NAME: Final = 15
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_MAC: Final = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
# As the kernel takes them for packets of offload: more than its headers, and eight times 64 KiB.
_SMALLEST_PACKET, _LARGEST_PACKET = 321, 8 * 65535
_LINK_SCOPE: Final = 253
_RESERVED_TABLES: Final = (253, 254, 255)
_LAST_PRIORITY: Final = 32767
_VRF_TABLES: Final = 100


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    pass


class Vrf(_Part, frozen=True):
    name: str = ""
    table: int | None = None

    def routing_table(self) -> int:
        """Interfaces that name the same VRF and no table share one: it follows from the name (FNV-1a, 32 bits)."""
        if self.table is not None:
            return self.table
        value = 0x811C9DC5
        for byte in self.name.encode():
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        return value % 1000 + _VRF_TABLES

    def validate(self, place: str) -> None:
        _need(bool(self.name), f"{place}.name: must not be empty")
        check_name(self.name, f"{place}.name")
        table = self.table
        if table is not None:
            _check_table(table, f"{place}.table")
            _need(table > 0 and table not in _RESERVED_TABLES, f"{place}.table: {table} is reserved or not positive")


class Interface(_Part, frozen=True):
    """`name` is that in the pod; without one it keeps the name that it has on the host."""

    name: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool | None = None
    mtu: int | None = None
    hardware_addr: str | None = None
    gso_max_size: int | None = None
    gro_max_size: int | None = None
    gso_ipv4_max_size: int | None = msgspec.field(default=None, name="gsoIPv4MaxSize")
    gro_ipv4_max_size: int | None = msgspec.field(default=None, name="groIPv4MaxSize")
    disable_ebpf_programs: bool | None = None
    forwarding: bool | None = None
    arp_ignore: int | None = None
    arp_announce: int | None = None
    vrf: Vrf | None = None

    def validate(self, place: str) -> None:
        if self.name:
            check_name(self.name, f"{place}.name")
        for index, address in enumerate(self.addresses):
            _parsed(ip_interface, address, f"{place}.addresses[{index}]")
            _need("/" in address, f"{place}.addresses[{index}]: {address!r} has no prefix length, such as /24")
        _need(not (self.dhcp and self.addresses), f"{place}: dhcp and addresses exclude each other")
        if self.mtu is not None:
            _need(self.mtu >= _SMALLEST_MTU, f"{place}.mtu: {self.mtu} is less than {_SMALLEST_MTU}")
            _need(self.mtu <= _LARGEST_MTU, f"{place}.mtu: {self.mtu} is more than {_LARGEST_MTU}")
        if self.hardware_addr is not None:
            _check_mac(self.hardware_addr, f"{place}.hardwareAddr")
            first = int(self.hardware_addr[:2], 16)
            is_of_one = not first & 1 and bool(set(self.hardware_addr) - set("0:-"))
            _need(is_of_one, f"{place}.hardwareAddr: {self.hardware_addr} is not an address of one interface")
        for name, size in self.sizes().items():
            least = _SMALLEST_PACKET if name.startswith("gso") else 1
            problem = f"{place}.{name}: must be from {least} to {_LARGEST_PACKET}, and is {size}"
            _need(least <= size <= _LARGEST_PACKET, problem)
        _need(self.arp_ignore in (None, 0, 1, 2, 3, 8), f"{place}.arpIgnore: must be one of 0, 1, 2, 3 and 8")
        _need(self.arp_announce in (None, 0, 1, 2), f"{place}.arpAnnounce: must be one of 0, 1 and 2")
        if self.vrf is not None:
            self.vrf.validate(f"{place}.vrf")
            _need(self.vrf.name != self.name, f"{place}.vrf.name: {self.name} is the name of the interface itself")

    def sizes(self) -> dict[str, int]:
        """Returns the configured GSO and GRO sizes by name."""
        given = {
            "gsoMaxSize": self.gso_max_size,
            "groMaxSize": self.gro_max_size,
            "gsoIPv4MaxSize": self.gso_ipv4_max_size,
            "groIPv4MaxSize": self.gro_ipv4_max_size,
        }
        return {name: size for name, size in given.items() if size is not None}


class Route(_Part, frozen=True):
    destination: str = ""
    gateway: str = ""
    source: str = ""
    scope: int = 0
    table: int = 0

    def validate(self, place: str) -> None:
        _need(bool(self.destination), f"{place}.destination: must not be empty")
        version = _parsed(ip_interface, self.destination, f"{place}.destination")
        _need("/" in self.destination, f"{place}.destination: {self.destination!r} needs a prefix length, such as /32")
        _need(self.scope in (0, _LINK_SCOPE), f"{place}.scope: must be 0 (universe) or {_LINK_SCOPE} (link)")
        if self.gateway:
            found = _parsed(ip_address, self.gateway, f"{place}.gateway")
            _need(found == version, f"{place}.gateway: {self.gateway} is of another family than {self.destination}")
        else:
            _need(self.scope == _LINK_SCOPE, f"{place}.gateway: must be given unless scope is {_LINK_SCOPE}")
        if self.source:
            found = _parsed(ip_address, self.source, f"{place}.source")
            _need(found == version, f"{place}.source: {self.source} is of another family than {self.destination}")
        _check_table(self.table, f"{place}.table")


class Rule(_Part, frozen=True):
    priority: int = 0
    source: str = ""
    destination: str = ""
    table: int = 0

    def validate(self, place: str) -> None:
        _need(0 <= self.priority <= _LAST_PRIORITY, f"{place}.priority: must be from 0 to {_LAST_PRIORITY}")
        _check_table(self.table, f"{place}.table")
        named = {"source": self.source, "destination": self.destination}
        versions = {_parsed(ip_network, text, f"{place}.{name}") for name, text in named.items() if text}
        _need(len(versions) < 2, f"{place}: source and destination are of different families")
        _need(bool(self.table) or 6 not in versions, f"{place}.table: must be given for IPv6")


class Neighbor(_Part, frozen=True):
    destination: str = ""
    hardware_addr: str = ""

    def validate(self, place: str) -> None:
        _parsed(ip_address, self.destination, f"{place}.destination")
        _check_mac(self.hardware_addr, f"{place}.hardwareAddr")


class Ethtool(_Part, frozen=True):
    features: dict[str, bool] = {}
    private_flags: dict[str, bool] = {}

    def validate(self, place: str) -> None:
        for name, given in (("features", self.features), ("privateFlags", self.private_flags)):
            _need("" not in given, f"{place}.{name}: a name must not be empty")


class NetworkConfig(Config, frozen=True):
    api_version: ClassVar[str] = ""
    kind: ClassVar[str | None] = None

    profile: str = ""
    interface: Interface = Interface()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    ethtool: Ethtool | None = None

    def validate(self) -> None:
        _need(not self.profile, "profile: this driver has no profiles; write out what the profile stands for")
        self.interface.validate("interface")
        _need(not (self.rules and self.interface.vrf), "rules: a VRF takes their place; give one of both")
        parts: tuple[tuple[str, Iterable[Route | Rule | Neighbor]], ...] = (
            ("routes", self.routes),
            ("rules", self.rules),
            ("neighbors", self.neighbors),
        )
        for name, given in parts:
            for index, each in enumerate(given):
                each.validate(f"{name}[{index}]")
        if self.ethtool is not None:
            self.ethtool.validate("ethtool")
        if problem := reachability.problem_of(self):
            raise ValueError(problem)

    @property
    def is_empty(self) -> bool:
        return self == NetworkConfig()


def check_name(name: str, place: str) -> None:
    _need(len(name) <= _LONGEST_NAME, f"{place}: {name!r} is longer than {_LONGEST_NAME} characters")
    valid = _NAME.fullmatch(name) and name not in (".", "..")
    _need(bool(valid), f"{place}: {name!r} may have letters, digits, '-', '_' and '.' alone")
    # As sysctls, these are those of every interface.
    _need(name not in ("all", "default"), f"{place}: {name!r} stands for all interfaces; give another name")
    _need(name != "lo", f"{place}: every pod has an interface 'lo'; give another name")


def _check_table(table: int, place: str) -> None:
    _need(0 <= table <= _LARGEST_TABLE, f"{place}: must be from 0 to {_LARGEST_TABLE}")


def _check_mac(text: str, place: str) -> None:
    _need(bool(_MAC.fullmatch(text)), f"{place}: {text!r} is not a hardware address, such as 02:00:00:00:00:01")


def _parsed(parse: type | object, text: str, place: str) -> int:
    """The version of the protocol that the address is of. A prefix has a length, no mask."""
    _, slash, prefix = text.partition("/")
    try:
        if "%" in text or (slash and not (prefix.isascii() and prefix.isdecimal())):
            raise ValueError
        found = parse(text)  # type: ignore[operator]
    except ValueError:
        raise ValueError(f"{place}: {text!r} is not an address as it is needed here") from None
    return int(found.version)


def _need(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
