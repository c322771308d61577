"""The Service `kubernetes` in namespace default: by it clients in pods find the API server.

Its endpoints are the address and port that other machines reach the server by. A server that listens on loopback has
none: such an address would mean another machine to each of its readers.
"""

from __future__ import annotations

from typing import Final

from dray.api.intake import Place
from dray.api.objects import Object
from dray.api.service_addresses import first_address
from dray.api.validation.addresses import address
from dray.server import bootstrap, updates
from dray.server.context import Context

NAME: Final = "kubernetes"
NAMESPACE: Final = "default"
_PORT: Final = 443
_LABELS: Final = {"component": "apiserver", "provider": "kubernetes"}


async def publish(context: Context, host: str, port: int) -> None:
    await bootstrap.create(context, _service(context, port))
    found = address(host)
    if found is None or found.is_loopback:
        return
    subsets = [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}]
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": _metadata(), "subsets": subsets}
    await _put(context, endpoints, ("subsets",))
    metadata = _metadata()
    metadata["labels"] = {"kubernetes.io/service-name": NAME}
    await _put(
        context,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": f"IPv{found.version}",
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
        ("endpoints", "ports"),
    )


def _metadata() -> Object:
    return {"name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}


def _service(context: Context, port: int) -> Object:
    metadata = {"name": NAME, "namespace": NAMESPACE, "labels": dict(_LABELS)}
    ports = [{"name": "https", "port": _PORT, "targetPort": port, "protocol": "TCP"}]
    spec = {"clusterIP": first_address(context.service_range), "ports": ports, "type": "ClusterIP"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


async def _put(context: Context, document: Object, members: tuple[str, ...]) -> None:
    """Creates the object, or updates these members, because the address may have changed."""
    await bootstrap.create(context, document)
    resource = context.registry.of_kind(document["apiVersion"], document["kind"])
    assert resource is not None

    def change(found: Object) -> None:
        found.update({member: document[member] for member in members})

    await updates.modify(context, resource, Place(NAMESPACE, NAME), change)
