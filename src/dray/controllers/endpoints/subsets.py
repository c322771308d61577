"""Endpoints as they are to be for a Service: pods with the same ports share a subset, the ready ones apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dray.api.objects import Object, annotations_of, key_of
from dray.controllers.endpoints.backends import Backend, Port, common_labels, location

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_MOST: Final = 1000


def desired(service: Object, backends: Iterable[Backend], existing: Object | None) -> Object:
    """Returns the wanted Endpoints, based on the existing object if there is one."""
    namespace, name = key_of(service)
    # One that is to end is left out unless the Service wants also those that are not ready.
    used = [backend for backend in backends if backend.ready or not backend.terminating]
    kept = sorted(used, key=lambda each: (not each.ready, each.address, key_of(each.pod)))[:_MOST]
    metadata: Object = dict(existing["metadata"]) if existing is not None else {"namespace": namespace, "name": name}
    metadata["labels"] = common_labels(service, MANAGED_BY, MANAGER)
    annotations = {key: value for key, value in annotations_of({"metadata": metadata}).items() if key != _OVER_CAPACITY}
    if len(used) > _MOST:
        annotations[_OVER_CAPACITY] = "truncated"
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
    made: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    if subsets := _subsets(kept):
        made["subsets"] = subsets
    return made


def differs(wanted: Object, existing: Object) -> bool:
    old, new = existing["metadata"], wanted["metadata"]
    return (
        (wanted.get("subsets") or []) != (existing.get("subsets") or [])
        or new["labels"] != old.get("labels")
        or new.get("annotations") != old.get("annotations")
    )


def _subsets(backends: list[Backend]) -> list[Object]:
    groups: dict[tuple[Port, ...], list[Backend]] = {}
    for backend in backends:
        groups.setdefault(backend.ports, []).append(backend)
    return [_subset(ports, groups[ports]) for ports in sorted(groups, key=repr)]


def _subset(ports: tuple[Port, ...], backends: list[Backend]) -> Object:
    found: Object = {}
    for member, ready in (("addresses", True), ("notReadyAddresses", False)):
        if chosen := [_address(backend) for backend in backends if backend.ready is ready]:
            found[member] = chosen
    if ports:
        found["ports"] = [_port(port) for port in ports]
    return found


def _address(backend: Backend) -> Object:
    named = {"hostname": backend.hostname} if backend.hostname else {}
    return {"ip": backend.address, **named, **location(backend), "targetRef": backend.reference}


def _port(port: Port) -> Object:
    named = {"name": port.name} if port.name else {}
    more = {"appProtocol": port.app_protocol} if port.app_protocol else {}
    return {**named, "port": port.number, "protocol": port.protocol, **more}
