"""Addresses, routes, rules and neighbors that are added to an interface; what is there already is left as it is."""

from __future__ import annotations

from collections.abc import Collection
from errno import EEXIST
from ipaddress import ip_network
from typing import Any

from dray.drivers.nic.config import Neighbor, Route, Rule
from dray.drivers.nic.links import FOREVER, Address, naming
from dray.drivers.nic.snapshot import HostRoute


def add_address(connection: Any, index: int, address: Address) -> None:
    wanted: dict[str, Any] = {"index": index, "address": address.address, "prefixlen": address.prefix}
    given: dict[str, Any] = {
        "scope": address.scope,
        "broadcast": address.broadcast,
        "label": address.label,
        "IFA_FLAGS": address.flags,
    }
    if address.valid != FOREVER:
        given["IFA_CACHEINFO"] = {"ifa_valid": address.valid, "ifa_preferred": address.preferred}
    wanted |= {name: value for name, value in given.items() if value}
    with naming(f"address {address}", ignored=(EEXIST,)):
        connection.addr("add", **wanted)


def add_route(connection: Any, index: int, route: Route | HostRoute, *, ignored: Collection[int] = ()) -> None:
    """`ignored` are further numbers of errors that do not matter."""
    # The kernel takes no bits beyond the prefix.
    destination = str(ip_network(route.destination, strict=False))
    wanted: dict[str, Any] = {"dst": destination, "oif": index, "scope": route.scope}
    given = {"gateway": route.gateway, "prefsrc": route.source, "table": route.table}
    if isinstance(route, HostRoute):
        given |= {"priority": route.metric, "proto": route.protocol}
    wanted |= {name: value for name, value in given.items() if value}
    with naming(f"route to {route.destination}", ignored=(EEXIST, *ignored)):
        connection.route("add", **wanted)


def add_rule(connection: Any, rule: Rule) -> None:
    wanted: dict[str, Any] = {"table": rule.table, "family": 10 if ":" in rule.source + rule.destination else 2}
    # What is for all addresses is for any: the kernel takes no empty prefix of a destination.
    source, destination = ("" if text.endswith("/0") else text for text in (rule.source, rule.destination))
    given = {"priority": rule.priority, "src": source, "dst": destination}
    wanted |= {name: value for name, value in given.items() if value}
    with naming(f"rule for table {rule.table}", ignored=(EEXIST,)):
        connection.rule("add", **wanted)


def add_neighbor(connection: Any, index: int, neighbor: Neighbor) -> None:
    wanted = {"dst": neighbor.destination, "lladdr": neighbor.hardware_addr.replace("-", ":"), "ifindex": index}
    with naming(f"neighbor {neighbor.destination}", ignored=(EEXIST,)):
        connection.neigh("add", **wanted, state="permanent")
