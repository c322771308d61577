"""EndpointSlices as they are to be for a Service, with as few writes as it takes.

Pods with the same ports stand in the same slices, at most a hundred in each. An endpoint stays in the slice it is in;
new ones go where there is room. Names are made from the Service and a number, so a slice that was made and is not seen
yet is not made twice: the second attempt meets the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from dray.api.objects import Object, controller_reference, key_of, mapping, uid_of
from dray.api.pods import node_of
from dray.controllers.endpoints.backends import SERVICE_LABEL, Backend, Port, common_labels, location

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
MOST: Final = 100
Identity = tuple[tuple[str, int, str, str], ...]


@dataclass(slots=True)
class Plan:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def plan(service: Object, backends: Iterable[Backend], existing: list[Object], zones: Mapping[str, str]) -> Plan:
    """`zones` are those of nodes, by name."""
    wanted: dict[Identity, dict[str, Object]] = {}
    ports: dict[Identity, list[Object]] = {}
    for backend in backends:
        identity = tuple((port.name, port.number, port.protocol, port.app_protocol) for port in backend.ports)
        ports.setdefault(identity, [_port(port) for port in backend.ports])
        wanted.setdefault(identity, {})[uid_of(backend.pod)] = _endpoint(backend, zones)
    found = Plan()
    kept, spare = _keep(service, existing, wanted)
    fresh = names(service, {key_of(slice_)[1] for slice_ in existing})
    for identity, rest in wanted.items():
        _fill(kept.get(identity, []), rest)
        left = list(rest.values())
        for start in range(0, len(left), MOST):
            found.create.append(_slice(service, next(fresh), ports[identity], left[start : start + MOST]))
    changed = [(before, now) for pairs in kept.values() for before, now in pairs]
    found.update += [now for before, now in changed if differs(before, now)]
    # Somebody who looks for the endpoints of a Service that has none finds that, and not nothing.
    if not changed and not found.create:
        if spare:
            empty = {**spare[0], "endpoints": [], "ports": [], "metadata": _metadata(service, spare[0])}
            found.update += [empty] if differs(spare[0], empty) else []
        else:
            found.create.append(_slice(service, next(fresh), [], []))
        spare = spare[1:]
    found.delete += spare
    return found


def _keep(
    service: Object, existing: list[Object], wanted: dict[Identity, dict[str, Object]]
) -> tuple[dict[Identity, list[tuple[Object, Object]]], list[Object]]:
    """The slices that keep some of their endpoints, before and after, by ports; and those that are left over.

    What is kept is taken out of what is wanted.
    """
    kept: dict[Identity, list[tuple[Object, Object]]] = {}
    spare = []
    for slice_ in sorted(existing, key=key_of):
        identity = identity_of(slice_)
        rest = wanted.get(identity, {})
        uids = [str(mapping(endpoint.get("targetRef")).get("uid") or "") for endpoint in slice_["endpoints"] or ()]
        staying = [rest.pop(uid) for uid in uids if uid in rest]
        if staying:
            now = {**slice_, "endpoints": staying, "metadata": _metadata(service, slice_)}
            kept.setdefault(identity, []).append((slice_, now))
        else:
            spare.append(slice_)
    return kept, spare


def _fill(slices: list[tuple[Object, Object]], rest: dict[str, Object]) -> None:
    """Adds endpoints to slices that have room, the fullest first."""
    for _, now in sorted(slices, key=lambda pair: -len(pair[1]["endpoints"])):
        for uid in list(rest)[: MOST - len(now["endpoints"])]:
            now["endpoints"].append(rest.pop(uid))


def differs(before: Object, now: Object) -> bool:
    return before["metadata"] != now["metadata"] or any(
        (before[member] or []) != (now[member] or []) for member in ("endpoints", "ports")
    )


def identity_of(endpoint_slice: Object) -> Identity:
    return tuple(
        (port.get("name") or "", port.get("port") or 0, port.get("protocol") or "TCP", port.get("appProtocol") or "")
        for port in endpoint_slice["ports"] or ()
    )


def names(owner: Object, taken: set[str]) -> Iterator[str]:
    """Generates unused names for slices from the owner's name and a hash of its uid and a counter."""
    number = 0
    while True:
        digest = sha256(f"{uid_of(owner)}/{number}".encode()).hexdigest()[:5]
        name = f"{key_of(owner)[1]}-{digest}"
        if name not in taken:
            yield name
        number += 1


def _slice(service: Object, name: str, ports: list[Object], endpoints: list[Object]) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**_metadata(service, {}), "namespace": key_of(service)[0], "name": name},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }


def _metadata(service: Object, existing: Object) -> Object:
    owner = {**controller_reference("v1", "Service", service), "blockOwnerDeletion": True}
    labels = {**common_labels(service, MANAGED_BY, MANAGER), SERVICE_LABEL: key_of(service)[1]}
    return {**mapping(existing.get("metadata")), "labels": labels, "ownerReferences": [owner]}


def _endpoint(backend: Backend, zones: Mapping[str, str]) -> Object:
    zone = zones.get(node_of(backend.pod))
    return {
        "addresses": [backend.address],
        "conditions": {"ready": backend.ready, "serving": backend.serving, "terminating": backend.terminating},
        **({"hostname": backend.hostname} if backend.hostname else {}),
        **location(backend),
        "targetRef": backend.reference,
        **({"zone": zone} if zone else {}),
    }


def _port(port: Port) -> Object:
    more = {"appProtocol": port.app_protocol} if port.app_protocol else {}
    return {"name": port.name, "port": port.number, "protocol": port.protocol, **more}
