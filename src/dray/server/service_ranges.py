"""Ranges and addresses of Services as objects: what new addresses are taken from, and which are taken.

A range is a ServiceCIDR, an address an IPAddress; `service_range_keeping` keeps them.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from dray.api.cluster_kinds import NETWORKING_GROUP
from dray.api.objects import Object, is_deleting, is_true, mapping, spec_of
from dray.server import documents
from dray.server.context import Context
from dray.server.resources import key_prefix

DEFAULT: Final = "kubernetes"
FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
RANGES: Final = key_prefix(NETWORKING_GROUP, "servicecidrs")
ADDRESSES: Final = key_prefix(NETWORKING_GROUP, "ipaddresses")


def ready(now: str, message: str = "Kubernetes Service CIDR is ready") -> Object:
    return {"type": "Ready", "status": "True", "reason": "", "message": message, "lastTransitionTime": now}


def networks_of(service_range: Object) -> list[IPv4Network | IPv6Network]:
    return [ip_network(cidr) for cidr in spec_of(service_range).get("cidrs") or ()]


def usable(context: Context) -> list[str]:
    """Returns the IPv4 ranges for new addresses, that of the server first."""
    found = [documents.decode(record.value) for record in context.store.list(RANGES).records]
    ranges = [network for network in found if is_true(network, "Ready") and not is_deleting(network)]
    networks = [str(network) for each in ranges for network in networks_of(each) if network.version == 4]
    return list(dict.fromkeys((context.service_range, *networks)))


def taken(context: Context, service: tuple[str, str]) -> set[str]:
    """Returns the addresses that IPAddresses assign to other Services."""
    found = (documents.decode(record.value) for record in context.store.list(ADDRESSES).records)
    return {address["metadata"]["name"] for address in found if parent_of(address) != service}


def parent_of(address: Object) -> tuple[str, str] | None:
    """Returns the Service of an IPAddress by namespace and name."""
    parent = mapping(spec_of(address).get("parentRef"))
    if (parent.get("group") or "", parent.get("resource")) != ("", "services"):
        return None
    return str(parent.get("namespace") or ""), str(parent.get("name") or "")
