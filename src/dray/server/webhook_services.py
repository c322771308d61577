"""Services of webhooks: the address behind a reference, from EndpointSlices, Endpoints or an external name.

Addresses of services themselves lead nowhere on a machine without a proxy, so endpoints are asked directly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.api.objects import Object, labels_of, mappings, spec_of
from dray.server import documents
from dray.server.resources import key_prefix

if TYPE_CHECKING:
    from dray.server.context import Context

_SERVICES = key_prefix("", "services")
_ENDPOINTS = key_prefix("", "endpoints")
_SLICES = key_prefix("discovery.k8s.io", "endpointslices")
_NAME_LABEL = "kubernetes.io/service-name"


class NoAddress(Exception):
    """Raised if the service cannot be reached."""


def resolve(context: Context, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Returns host and port of a ready endpoint; raises NoAddress."""
    record = context.store.get(f"{_SERVICES}{namespace}/{name}")
    if record is None:
        raise NoAddress(f'service "{name}" not found')
    spec = spec_of(documents.decode(record.value))
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    wanted = next((entry for entry in mappings(spec.get("ports")) if entry.get("port") == port), None)
    if wanted is None:
        raise NoAddress(f'no service port {port} found for service "{name}"')
    found = list(_of_slices(context, namespace, name, wanted)) or list(_of_endpoints(context, namespace, name, wanted))
    if not found:
        raise NoAddress(f'no endpoints available for service "{name}"')
    return random.choice(found)


def _of_slices(context: Context, namespace: str, name: str, wanted: Object) -> Iterator[tuple[str, int]]:
    for record in context.store.list(f"{_SLICES}{namespace}/").records:
        if name.encode() not in record.value:
            continue
        each = documents.decode(record.value)
        if labels_of(each).get(_NAME_LABEL) != name:
            continue
        ready = [
            end for end in mappings(each.get("endpoints")) if (end.get("conditions") or {}).get("ready") is not False
        ]
        yield from _pairs((address for end in ready for address in end.get("addresses") or ()), each, wanted)


def _of_endpoints(context: Context, namespace: str, name: str, wanted: Object) -> Iterator[tuple[str, int]]:
    record = context.store.get(f"{_ENDPOINTS}{namespace}/{name}")
    for subset in mappings(documents.decode(record.value).get("subsets")) if record is not None else ():
        yield from _pairs((address["ip"] for address in mappings(subset.get("addresses"))), subset, wanted)


def _pairs(addresses: Iterator[str], holder: Object, wanted: Object) -> Iterator[tuple[str, int]]:
    ports = [
        entry for entry in mappings(holder.get("ports")) if (entry.get("name") or "") == (wanted.get("name") or "")
    ]
    for address in addresses:
        for port in ports:
            if isinstance(port.get("port"), int):
                yield address, port["port"]
