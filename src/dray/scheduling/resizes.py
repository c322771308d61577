"""Pods that are being resized in place: what their containers hold counts until it is given back.

The spec has what is wanted. The node says in the status what a container was granted (`allocatedResources`) and what it
runs with (`resources`). Until these agree it takes the most of them, for each resource. What the node said it can never
grant does not count.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, mapping, mappings
from dray.api.pod_requests import amounts, container_requests, is_sidecar

_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


def in_force(document: Object) -> Object:
    """The pod with what its containers take at present; the same object where that is what its spec says."""
    status = document.get("status") or {}
    if not (status.get("containerStatuses") or status.get("initContainerStatuses")):
        return document
    granted = {
        each.get("name"): each
        for member in _STATUSES
        for each in mappings(status.get(member))
        if isinstance(each.get("resources"), dict)
    }
    spec, refused = document["spec"], _is_refused(status)
    changed: Object = {}
    for member in ("containers", "initContainers"):
        before = mappings(spec.get(member))
        after = [
            _held(each, granted[each.get("name")], refused)
            if each.get("name") in granted and (member == "containers" or is_sidecar(each))
            else each
            for each in before
        ]
        if after != before:
            changed[member] = after
    return {**document, "spec": {**spec, **changed}} if changed else document


def _held(container: Object, status: Object, refused: bool) -> Object:
    wanted = container_requests(container)
    requests: Object = {} if refused else dict(wanted)
    for granted in (mapping(status["resources"]).get("requests"), status.get("allocatedResources")):
        _raise(requests, mapping(granted))
    if requests == wanted:
        return container
    return {**container, "resources": {**mapping(container.get("resources")), "requests": requests}}


def _raise(requests: Object, granted: Object) -> None:
    known = amounts(requests)
    for name, amount in amounts(granted).items():
        if amount > known.get(name, 0):
            requests[name] = granted[name]


def _is_refused(status: Any) -> bool:
    return any(
        each.get("type") == "PodResizePending" and each.get("reason") == "Infeasible"
        for each in mappings(status.get("conditions"))
    )
