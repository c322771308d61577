"""Services get their address and node ports. What is taken is read from the store, so deletion gives it back.

Nothing waits between this and the write, so two Services never get the same.
"""

from __future__ import annotations

import msgspec

from dray.api import service_addresses
from dray.api.service_addresses import Port
from dray.server import service_ranges, status
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_SERVICES = key_prefix("", "services")


class _Port(msgspec.Struct, rename="camel"):
    protocol: str = "TCP"
    node_port: int = 0


class _Spec(msgspec.Struct):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: list[_Port] = msgspec.field(default_factory=list)
    health_port: int = msgspec.field(default=0, name="healthCheckNodePort")


class _Service(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_Service).decode


def allocate(attributes: Attributes) -> None:
    service = attributes.obj
    if attributes.subresource:
        return
    if not service_addresses.needs_address(service):
        return
    old = attributes.old
    key = f"{_SERVICES}{attributes.namespace}/{service['metadata'].get('name', '')}"
    addresses, ports = _taken(attributes, key)
    addresses |= service_ranges.taken(attributes.context, (attributes.namespace, attributes.name))
    service_addresses.set_families(service)
    own = old["spec"].get("clusterIP", "") if old is not None else ""
    own_ports = service_addresses.ports_of(old) if old is not None else set()
    problem = service_addresses.allocate_address(service, service_ranges.usable(attributes.context), addresses, own)
    problems = [*([problem] if problem else []), *service_addresses.allocate_ports(service, ports, own_ports)]
    if problems:
        raise status.invalid("Service", "", service["metadata"].get("name", ""), problems)


def open_range(attributes: Attributes) -> None:
    """Marks a new Service CIDR as ready, and adds the finalizer that keeps it while its addresses are in use."""
    obj, now = attributes.obj, attributes.context.now()
    if attributes.name == service_ranges.DEFAULT:
        obj["status"] = {"conditions": [service_ranges.ready(now, "Kubernetes default Service CIDR is ready")]}
    else:
        obj["status"] = {"conditions": [service_ranges.ready(now)]}
    if service_ranges.FINALIZER not in (finalizers := obj["metadata"].setdefault("finalizers", [])):
        finalizers.append(service_ranges.FINALIZER)
    if any(network.version != 4 for network in service_ranges.networks_of(obj)):
        attributes.warnings.append("addresses of Services are IPv4 here: an IPv6 range is not used")


def _taken(attributes: Attributes, own_key: str) -> tuple[set[str], set[Port]]:
    addresses: set[str] = set()
    ports: set[Port] = set()
    for record in attributes.context.store.list(_SERVICES).records:
        if record.key == own_key:
            continue
        spec = _decode(record.value).spec
        addresses.add(spec.cluster_ip)
        ports |= {(port.protocol, port.node_port) for port in spec.ports if port.node_port}
        if spec.health_port:
            ports.add(("TCP", spec.health_port))
    return addresses, ports
