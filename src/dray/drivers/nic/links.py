"""Interfaces of the network namespace of the calling thread, read over netlink."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any, Final

import msgspec

# Numbers of the kernel: flags of interfaces, kinds of hardware, tables and types of routes.
IFF_UP: Final = 0x1
_IFF_LOOPBACK: Final = 0x8
_ENCAPSULATIONS: Final = {1: "ether", 32: "infiniband", 512: "ppp", 772: "loopback", 778: "gre", 65534: "none"}
_STATES: Final = {"lowerlayerdown": "lower-layer-down", "notpresent": "not-present"}
_MAIN_TABLE: Final = 254
FOREVER: Final = 0xFFFFFFFF
LINK_SCOPE: Final = 253
# Without a route to its network, and made by the kernel from what a router told.
_NO_PREFIX_ROUTE: Final = 0x200
_BY_ROUTER: Final = 0x1 | 0x100
# Kinds whose `link` is the interface they are made on; that of a veth is its peer.
_ON_ANOTHER: Final = frozenset({"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec", "ipoib"})


class NetlinkFailed(Exception):
    """The kernel refused, with the reason."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is empty for what is no virtual interface; `parent` is the device behind it, as the kernel names it."""

    index: int
    name: str
    kind: str = ""
    mac: str = ""
    permanent_mac: str = ""
    mtu: int = 0
    queue_length: int = 0
    is_up: bool = False
    is_loopback: bool = False
    state: str = "unknown"
    encapsulation: str = "ether"
    alias: str = ""
    master: int = 0
    link: int = 0
    link_elsewhere: bool = False
    parent: str = ""

    @property
    def type(self) -> str:
        return self.kind or "device"

    @property
    def lies_on(self) -> int:
        """The index of the interface that it is made on, in the same namespace."""
        return self.link if self.kind in _ON_ANOTHER and not self.link_elsewhere else 0


class Address(msgspec.Struct, frozen=True):
    """`valid` and `preferred` are the seconds that it lives on; `flags` those that can be given to an address."""

    address: str
    prefix: int
    scope: int = 0
    broadcast: str = ""
    label: str = ""
    flags: int = 0
    valid: int = FOREVER
    preferred: int = FOREVER

    def __str__(self) -> str:
        return f"{self.address}/{self.prefix}"

    @property
    def version(self) -> int:
        return ip_address(self.address).version

    @property
    def is_by_kernel(self) -> bool:
        """Whether the kernel makes it by itself wherever the interface is up: link-local, or as a router told it to."""
        return self.version == 6 and (self.scope == LINK_SCOPE or bool(self.flags & _BY_ROUTER))


@contextmanager
def netlink() -> Iterator[Any]:
    """A connection to the kernel of pyroute2; what it refuses is NetlinkFailed."""
    # Loaded where it is needed alone: it takes longer than the rest of a driver.
    try:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError
    except ImportError as error:
        raise NetlinkFailed(f"the package pyroute2 is missing: pip install pyroute2 ({error})") from error
    try:
        with IPRoute() as connection:
            yield connection
    except NetlinkError as error:
        raise NetlinkFailed(_told(error)) from error


@contextmanager
def naming(what: str, *, ignored: Collection[int] = ()) -> Iterator[None]:
    """Turns kernel errors into NetlinkFailed with this name, except for the ignored error numbers."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        if error.code not in ignored:
            raise NetlinkFailed(f"{what}: {_told(error)}") from error


def _told(error: Exception) -> str:
    return str(error.args[1] if len(error.args) > 1 else error)


def read_links(connection: Any) -> list[Link]:
    return [_link(message) for message in connection.get_links()]


def find_link(connection: Any, index: int) -> Link | None:
    return next((link for link in read_links(connection) if link.index == index), None)


def _link(message: Any) -> Link:
    flags = message["flags"]
    return Link(
        index=message["index"],
        name=message.get("ifname") or "",
        kind=message.get(("linkinfo", "kind")) or "",
        mac=message.get("address") or "",
        permanent_mac=message.get("perm_address") or "",
        mtu=message.get("mtu") or 0,
        queue_length=message.get("txqlen") or 0,
        is_up=bool(flags & IFF_UP),
        is_loopback=bool(flags & _IFF_LOOPBACK),
        state=_state(message.get("operstate")),
        encapsulation=_ENCAPSULATIONS.get(message["ifi_type"], str(message["ifi_type"])),
        alias=message.get("ifalias") or "",
        master=message.get("master") or 0,
        link=message.get("link") or 0,
        link_elsewhere=message.get("link_netnsid") is not None,
        parent=message.get("parent_dev_name") or "",
    )


def _state(text: str | None) -> str:
    state = (text or "unknown").lower()
    return _STATES.get(state, state)


def read_addresses(connection: Any, index: int = 0) -> dict[int, list[Address]]:
    """Returns addresses by interface index."""
    found: dict[int, list[Address]] = {}
    # Without a family the kernel gives those of all.
    for message in connection.get_addr(**({"index": index} if index else {})):
        # Of a connection between two points, `address` is the other one.
        address = message.get("local") or message.get("address")
        if address:
            found.setdefault(message["index"], []).append(_address(message, address))
    return found


def _address(message: Any, address: str) -> Address:
    life = message.get_attr("IFA_CACHEINFO") or {}
    return Address(
        address,
        message["prefixlen"],
        message["scope"],
        message.get("broadcast") or "",
        message.get("label") or "",
        (message.get_attr("IFA_FLAGS") or 0) & (_NO_PREFIX_ROUTE | _BY_ROUTER),
        life.get("ifa_valid", FOREVER),
        life.get("ifa_preferred", FOREVER),
    )


def default_route_links(connection: Any) -> set[int]:
    """The indices of the interfaces that a default route of the main table leads over, of all of them."""
    found: set[int] = set()
    for message in connection.get_routes():
        if message["dst_len"] or message.get("table") != _MAIN_TABLE:
            continue
        if message.get("oif"):
            found.add(message.get("oif"))
        found |= {hop["oif"] for hop in message.get("multipath") or () if hop.get("oif")}
    return found
