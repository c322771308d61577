"""Snapshot: how an interface is on the host, to be read before it leaves and restored when it is back."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address, ip_network
from socket import AF_INET, AF_INET6
from typing import Any, Final

import msgspec

from dray.drivers.nic import ethtool, offload_sizes
from dray.drivers.nic.config import Neighbor, NetworkConfig, Route, Rule
from dray.drivers.nic.links import Address, Link, read_addresses
from dray.drivers.nic.sysctls import read_sysctls

# Numbers of the kernel: scopes of addresses, tables, types and origins of routes, states of neighbors.
_UNIVERSE, _LINK = 0, 253
_LOCAL_TABLE, _MAIN_TABLE, _DEFAULT_TABLE = 255, 254, 253
_UNICAST: Final = 1
_BY_KERNEL: Final = 2
_PERMANENT: Final = 0x80


class HostRoute(msgspec.Struct, frozen=True):
    """`destination` is 0.0.0.0/0 or ::/0 for a default route; `protocol` says who made it."""

    destination: str
    gateway: str = ""
    source: str = ""
    scope: int = 0
    table: int = _MAIN_TABLE
    metric: int = 0
    protocol: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`features` and `private_flags` are those alone that a claim changes."""

    link: Link
    addresses: tuple[Address, ...] = ()
    routes: tuple[HostRoute, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()
    sizes: dict[str, int] = {}
    sysctls: dict[str, str] = {}
    features: dict[str, bool] = {}
    private_flags: dict[str, bool] = {}


def take(connection: Any, link: Link, config: NetworkConfig) -> Snapshot:
    """Raises EthtoolFailed for features that the interface does not have."""
    wanted = config.ethtool
    changed = ethtool.features(link.name, wanted.features) if wanted and wanted.features else {}
    flags = ethtool.private_flags(link.name) if wanted and wanted.private_flags else {}
    routes = _routes(connection, link.index)
    return Snapshot(
        link=link,
        addresses=tuple(read_addresses(connection, link.index).get(link.index, ())),
        routes=routes,
        rules=_rules(connection, {route.table for route in routes}),
        neighbors=_neighbors(connection, link.index),
        sizes=offload_sizes.read_sizes(link.index),
        sysctls=read_sysctls(link.name),
        features=ethtool.read_features(link.name, changed),
        private_flags=flags,
    )


def completed(config: NetworkConfig, snapshot: Snapshot) -> NetworkConfig:
    """The configuration with what the interface has on the host, where the claim does not say otherwise.

    Routes, rules and neighbors of the host go with its addresses: others would not reach their gateways.
    """
    name = config.interface.name or snapshot.link.name
    interface = msgspec.structs.replace(config.interface, name=name)
    if interface.addresses or interface.dhcp:
        return msgspec.structs.replace(config, interface=interface)
    given_addresses = (
        address for address in snapshot.addresses if address.scope == _UNIVERSE and not address.is_by_kernel
    )
    addresses = tuple(map(str, given_addresses))
    given = {(route.destination, route.table or _MAIN_TABLE) for route in config.routes}
    kept = (route for route in snapshot.routes if _moves(route) and (route.destination, route.table) not in given)
    known = {neighbor.destination for neighbor in config.neighbors}
    return msgspec.structs.replace(
        config,
        interface=msgspec.structs.replace(interface, addresses=addresses),
        routes=(*config.routes, *(Route(**_plain(route)) for route in kept)),
        rules=config.rules if interface.vrf else (*config.rules, *snapshot.rules),
        neighbors=(
            *config.neighbors,
            *(neighbor for neighbor in snapshot.neighbors if neighbor.destination not in known),
        ),
    )


def _moves(route: HostRoute) -> bool:
    """A default route of the host is not that of a pod, and others are made by the kernel."""
    network = ip_network(route.destination)
    if route.protocol == _BY_KERNEL:
        return False
    return network.prefixlen > 0 and not (network.version == 6 and network.is_link_local)


def _plain(route: HostRoute) -> dict[str, Any]:
    scope = _LINK if route.scope == _LINK or not route.gateway else _UNIVERSE
    return {
        "destination": route.destination,
        "gateway": route.gateway,
        "source": route.source,
        "scope": scope,
        "table": route.table,
    }


def _routes(connection: Any, index: int) -> tuple[HostRoute, ...]:
    found = []
    for message in connection.get_routes():
        table = message.get("table") or message["table"]
        if message.get("oif") != index or table == _LOCAL_TABLE or message["type"] != _UNICAST:
            continue
        if message["family"] == AF_INET6 and message["proto"] == _BY_KERNEL:
            # With the address that it belongs to, it comes back by itself.
            continue
        any_address = "::" if message["family"] == AF_INET6 else "0.0.0.0"
        found.append(
            HostRoute(
                f"{message.get('dst') or any_address}/{message['dst_len']}",
                message.get("gateway") or "",
                message.get("prefsrc") or "",
                message["scope"],
                table,
                message.get("priority") or 0,
                message["proto"],
            )
        )
    # Those to neighbors first: gateways are reached by them.
    return tuple(sorted(found, key=lambda each: (bool(each.gateway), each.destination)))


def _rules(connection: Any, tables: Collection[int]) -> tuple[Rule, ...]:
    wanted = set(tables) - {_LOCAL_TABLE, _MAIN_TABLE, _DEFAULT_TABLE, 0}
    if not wanted:
        return ()
    found = []
    for family in (AF_INET, AF_INET6):
        for message in connection.get_rules(family=family):
            table = message.get("table") or message["table"]
            if table in wanted:
                source = f"{message.get('src')}/{message['src_len']}" if message.get("src") else ""
                target = f"{message.get('dst')}/{message['dst_len']}" if message.get("dst") else ""
                found.append(
                    Rule(priority=message.get("priority") or 0, source=source, destination=target, table=table)
                )
    return tuple(found)


def _neighbors(connection: Any, index: int) -> tuple[Neighbor, ...]:
    found = []
    for message in connection.get_neighbours(ifindex=index):
        address, mac = message.get("dst"), message.get("lladdr")
        if message["state"] == _PERMANENT and address and mac and not ip_address(address).is_multicast:
            found.append(Neighbor(destination=address, hardware_addr=mac))
    return tuple(found)
