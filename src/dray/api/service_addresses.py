"""Addresses and node ports of Services: what one needs, what it keeps through an update, and what it is given.

The range of addresses is IPv4. An address or port that an author chose is checked, others are chosen here: at a place
that depends on the Service, and the next that is free. The first addresses of the range are left to authors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Final
from zlib import crc32

from dray.api import errors
from dray.api.errors import FieldError
from dray.api.objects import Object

HEADLESS: Final = "None"
DEFAULT_RANGE: Final = "10.96.0.0/16"
NODE_PORTS: Final = range(30000, 32768)
Port = tuple[str, int]
"""(protocol, number) of a port."""
_MOST_RESERVED = 256
_LEAST_RESERVED = 16


def needs_address(service: Object) -> bool:
    return bool(service["spec"].get("type") != "ExternalName")


def needs_node_ports(service: Object) -> bool:
    spec = service["spec"]
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return bool(spec.get("type") == "NodePort")


def _needs_health_port(service: Object) -> bool:
    spec = service["spec"]
    return bool(spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local")


def first_address(cidr: str) -> str:
    """Returns the first address of the range, which the Service `kubernetes` gets."""
    return str(IPv4Network(cidr)[1])


def keep(service: Object, old: Object) -> None:
    """Gives an update what was allocated and what it does not mention, and takes what its new type does not have."""
    spec, before = service["spec"], old["spec"]
    if needs_address(service) and needs_address(old):
        for member in ("clusterIP", "clusterIPs"):
            if not spec.get(member) and before.get(member):
                spec[member] = before[member]
    elif needs_address(old) and spec.get("clusterIP") == before.get("clusterIP"):
        for member in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(member, None)
    had = {_port(port): port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
    for port in spec.get("ports") or ():
        if needs_node_ports(service) and not port.get("nodePort") and _port(port) in had:
            port["nodePort"] = had[_port(port)]
        elif not _may_have_node_ports(service) and port.get("nodePort") == had.get(_port(port)):
            port.pop("nodePort", None)
    if not _needs_health_port(service) and spec.get("healthCheckNodePort") == before.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)


def _may_have_node_ports(service: Object) -> bool:
    return service["spec"].get("type") in ("LoadBalancer", "NodePort")


def _port(port: Object) -> Port:
    return port.get("protocol") or "TCP", port["port"]


def set_families(service: Object) -> None:
    """One family, but both for a headless Service without a selector, whose endpoints somebody else chooses."""
    spec = service["spec"]
    if not needs_address(service):
        return
    is_open = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if is_open else "SingleStack"
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = ["IPv4", "IPv6"] if is_open else ["IPv4"]


def allocate_address(
    service: Object, ranges: Sequence[str], taken: Collection[str], own: str = ""
) -> FieldError | None:
    """Allocates the Service's address; returns what is wrong if that fails. `own` is the address it has."""
    spec = service["spec"]
    wanted, networks = spec.get("clusterIP") or "", [IPv4Network(range_) for range_ in ranges]
    if wanted == HEADLESS:
        spec["clusterIPs"] = [HEADLESS]
        return None
    if wanted and wanted != own:
        problem = _unusable(wanted, networks, taken)
        if problem:
            return errors.invalid("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {problem}")
    elif not wanted:
        wanted = next((free for network in networks for free in _free(service, network, taken)), "")
        if not wanted:
            return errors.FieldError(errors.ErrorType.INTERNAL, "spec.clusterIPs", "range is full")
        spec["clusterIP"] = wanted
    spec["clusterIPs"] = [wanted]
    return None


def _unusable(wanted: str, networks: Sequence[IPv4Network], taken: Collection[str]) -> str:
    address = IPv4Address(wanted) if ":" not in wanted else None
    if address is None or not any(
        address in network and address not in (network[0], network[-1]) for network in networks
    ):
        valid = ", ".join(map(str, networks))
        return f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {valid}"
    return "provided IP is already allocated" if wanted in taken else ""


def _free(service: Object, network: IPv4Network, taken: Collection[str]) -> Iterator[str]:
    size = network.num_addresses
    reserved = min(max(_LEAST_RESERVED, size // 16), _MOST_RESERVED, max(1, size - 2))
    upper = max(1, size - 1 - reserved)
    start = crc32(service["metadata"].get("uid", "").encode()) % upper
    places = [reserved + (start + step) % upper for step in range(min(upper, len(taken) + 1))]
    for place in (*places, *range(1, reserved)):
        if 0 < place < size - 1 and (address := str(network[place])) not in taken:
            yield address


def allocate_ports(service: Object, taken: Collection[Port], own: Collection[Port]) -> Iterator[FieldError]:
    """Allocates node ports for the Service; `own` are the ports that it has."""
    spec = service["spec"]
    used = set(taken)
    given: set[int] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        protocol, number = port.get("protocol") or "TCP", port.get("nodePort") or 0
        if number and (protocol, number) not in own:
            path = f"spec.ports[{index}].nodePort"
            if number not in NODE_PORTS:
                yield errors.invalid(path, number, _OUTSIDE)
            elif (protocol, number) in used:
                yield errors.invalid(path, number, "provided port is already allocated")
        elif not number and needs_node_ports(service):
            number = next(_free_ports(service, index, {each for _, each in used} | given), 0)
            if not number:
                yield errors.FieldError(errors.ErrorType.INTERNAL, f"spec.ports[{index}].nodePort", "range is full")
                return
            port["nodePort"] = number
        used.add((protocol, number))
        given.add(number)
    if _needs_health_port(service) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = next(_free_ports(service, -1, {each for _, each in used}), 0)


_OUTSIDE = (
    f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
)


def _free_ports(service: Object, index: int, used: set[int]) -> Iterator[int]:
    start = crc32(f"{service['metadata'].get('uid', '')}/{index}".encode()) % len(NODE_PORTS)
    for step in range(len(NODE_PORTS)):
        number = NODE_PORTS[(start + step) % len(NODE_PORTS)]
        if number not in used:
            yield number


def ports_of(service: Object) -> set[Port]:
    """Returns the node ports of the Service."""
    ports = service["spec"].get("ports") or ()
    return {(port.get("protocol") or "TCP", port["nodePort"]) for port in ports if port.get("nodePort")}
