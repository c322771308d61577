"""What the kernel would refuse in the network of a pod, as far as the configuration alone tells.

Addresses that no interface may have, an MTU that is too small for IPv6, and gateways that are on no network of the
interface. Gateways are judged only if the claim names all addresses itself: an interface without addresses in its
configuration has those of the host, and one with DHCP gets some later.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface, ip_network
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.drivers.nic.config import NetworkConfig, Route

_SMALLEST_IPV6_MTU: Final = 1280
_LINK_SCOPE: Final = 253
_POINT_TO_POINT: Final = 31

_Network = IPv4Network | IPv6Network


def problem_of(config: NetworkConfig) -> str:
    """Returns the place and what is wrong; empty if nothing is. The addresses in the configuration can be parsed."""
    for index, text in enumerate(config.interface.addresses):
        address = ip_interface(text).ip
        if address.version == 6 and (address.is_unspecified or address.is_loopback or address.is_multicast):
            return f"interface.addresses[{index}]: no interface may have the address {address}"
    mtu = config.interface.mtu
    if mtu is not None and mtu < _SMALLEST_IPV6_MTU and _has_ipv6(config):
        return f"interface.mtu: {mtu} is less than {_SMALLEST_IPV6_MTU}, which IPv6 needs"
    for index, route in enumerate(config.routes):
        if problem := _gateway_problem(config, route):
            return f"routes[{index}].gateway: {problem}"
    return ""


def _has_ipv6(config: NetworkConfig) -> bool:
    texts = (
        *config.interface.addresses,
        *(route.destination for route in config.routes),
        *(neighbor.destination for neighbor in config.neighbors),
    )
    return any(":" in text for text in texts)


def _gateway_problem(config: NetworkConfig, route: Route) -> str:
    if not route.gateway:
        return ""
    gateway = ip_address(route.gateway)
    if gateway.version == 6 and (gateway.is_unspecified or gateway.is_multicast or gateway.is_loopback):
        return f"{gateway} cannot be a gateway"
    if gateway.version == 4 and route.scope == _LINK_SCOPE:
        return f"a route with scope {_LINK_SCOPE} has none; leave out one of both"
    if gateway.is_link_local or gateway.is_unspecified or config.interface.dhcp or not config.interface.addresses:
        return ""
    own: list[_Network] = [ip_interface(text).network for text in config.interface.addresses]
    linked: list[_Network] = [
        ip_network(other.destination, strict=False) for other in config.routes if not other.gateway
    ]
    if not any(gateway in network for network in (*own, *linked)):
        named = ", ".join(map(str, own))
        return f"{gateway} is in none of {named}; add an address, or a route with scope {_LINK_SCOPE} to it"
    if any(_has_broadcast(network) and gateway == network.broadcast_address for network in own):
        return f"{gateway} is a broadcast address"
    return ""


def _has_broadcast(network: _Network) -> bool:
    return network.version == 4 and network.prefixlen < _POINT_TO_POINT
