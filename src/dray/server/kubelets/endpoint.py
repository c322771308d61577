"""Endpoint of a node's API: where its Node object says that the agent listens."""

from __future__ import annotations

from dataclasses import dataclass

from dray.api.objects import mapping, mappings, status_of
from dray.server import documents, status
from dray.server.context import Context
from dray.server.resources import key_prefix

_NODES = key_prefix("", "nodes")
_ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`node` is also the name that the agent's certificate must carry."""

    node: str
    host: str
    port: int

    @property
    def place(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def endpoint_of(context: Context, name: str) -> Endpoint:
    """Raises a 404 for a node that is not there, a 501 for one that has no API: simulated nodes, for example."""
    record = context.store.get(_NODES + name)
    if record is None:
        raise status.not_found("", "nodes", name)
    told = status_of(documents.decode(record.value))
    port = mapping(mapping(told.get("daemonEndpoints")).get("kubeletEndpoint")).get("Port")
    addresses = {str(each.get("type")): str(each.get("address") or "") for each in mappings(told.get("addresses"))}
    host = next((addresses[each] for each in _ADDRESS_TYPES if addresses.get(each)), "")
    if not host or not isinstance(port, int) or not 0 < port < 65536:
        raise status.not_implemented(f"node {name} has no kubelet API: it is simulated, or its agent never came up")
    return Endpoint(name, host, port)
