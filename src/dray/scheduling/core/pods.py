"""Pods: reads pods from their documents, including pods that are resized in place.

The spec has the wanted requests of a container. The status has the requests that the node granted
(`allocatedResources`) and those with which the container runs (`resources`). Until these agree, the largest of them
counts for each resource. Wanted requests do not count if the node reported the resize as infeasible.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, key_of, labels_of, mapping, mappings
from dray.api.pod_requests import amounts, container_requests, is_sidecar
from dray.scheduling.cluster.affinity_index import AffinityIndex
from dray.scheduling.core import node_allocatable
from dray.scheduling.groups.front_ends import group_of
from dray.scheduling.model.making_room import ANNOTATION as MAKES_ROOM
from dray.scheduling.model.pod import Pod, own_priority
from dray.scheduling.model.signatures import Signatures

_STATUSES: Final = ("containerStatuses", "initContainerStatuses")


def in_force(document: Object) -> Object:
    """Returns the pod with the requests that its containers take now; the same object if its spec has these."""
    status = document.get("status") or {}
    if not (status.get("containerStatuses") or status.get("initContainerStatuses")):
        return document
    granted = {
        container.get("name"): container
        for member in _STATUSES
        for container in mappings(status.get(member))
        if isinstance(container.get("resources"), dict)
    }
    spec, refused = document["spec"], _is_refused(status)
    changed: Object = {}
    for member in ("containers", "initContainers"):
        before = mappings(spec.get(member))
        after = [
            _held(container, granted[container.get("name")], refused)
            if container.get("name") in granted and (member == "containers" or is_sidecar(container))
            else container
            for container in before
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
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in mappings(status.get("conditions"))
    )


def read(document: Object, signatures: Signatures, known: Pod | None = None) -> Pod:
    """Reads a pod; `known` is the pod as it was before the change."""
    metadata, spec = document["metadata"], document["spec"]
    generation = metadata.get("generation")
    taking = in_force(document)
    if (
        known is not None
        and generation
        and known.document["metadata"].get("generation") == generation
        and taking is document
        and in_force(known.document) is known.document
    ):
        # Labels are part of the signature of a pod with affinity or spread terms, and change without a new
        # generation. The same holds for values that plugins add to the signature.
        before = known.requirements
        same = not before.pod_terms or known.labels == labels_of(document)
        same = same and signatures.signs(document) == before.signs
        requirements = before if same else signatures.requirements(document)
    else:
        requirements = signatures.requirements(taking)
    group = group_of(document)
    return Pod(
        key_of(document),
        metadata["uid"],
        document,
        requirements,
        own_priority(document),
        spec.get("preemptionPolicy") != "Never",
        metadata.get("creationTimestamp") or "",
        known.extra if known is not None else node_allocatable.amounts_of(document),
        group,
        group is not None or signatures.joins(metadata.get("labels") or ()),
    )


def claims_of(document: Object) -> object:
    """Returns the fields of a waiting pod that tell which claims it has and whether it may be tried."""
    spec = document["spec"]
    statuses = (document.get("status") or {}).get("resourceClaimStatuses")
    return spec.get("resourceClaims"), statuses, spec.get("schedulingGates")


def outward(pod: Pod) -> object:
    """Returns the fields of a pod that affect other pods: affinity terms, and the pod that it makes room for."""
    metadata = pod.document["metadata"]
    annotations = metadata.get("annotations") or {}
    return metadata.get("labels") or {}, bool(metadata.get("deletionTimestamp")), annotations.get(MAKES_ROOM)


def is_unchanged(known: Pod, pod: Pod, affinity: AffinityIndex) -> bool:
    """Whether a change of the pod cannot change the outcome of an attempt."""
    if pod.requirements is not known.requirements or pod.priority != known.priority or pod.group != known.group:
        return False
    if pod.labels != known.labels and (pod.requirements.pod_terms or affinity.selects(pod)):
        # Terms of other pods may select the pod no longer.
        return False
    if (pod.joins or known.joins) and pod.labels != known.labels:
        # Labels name queues, and options of queues.
        return False
    return claims_of(pod.document) == claims_of(known.document)
