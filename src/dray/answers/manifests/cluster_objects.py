"""Reads manifests as existing objects of a cluster; keeps their nodes, allocations and status."""

from __future__ import annotations

from dray.answers.errors import InvalidInput
from dray.answers.manifests.reading import Manifest, Reading
from dray.answers.manifests.stored import Namespaces, Unusable, decoded
from dray.api.catalogue import find
from dray.api.objects import Object, key_of
from dray.api.times import text_of
from dray.planning.stored_objects import kind_of
from dray.scheduling.groups.front_ends import FRONT_ENDS, TOPOLOGIES
from dray.scheduling_loop.queue_systems.systems import SYSTEMS


def cluster_objects(reading: Reading, namespace: str, now: float) -> dict[str, list[Object]]:
    """Returns the objects by the kind under which the scheduler receives them. Raises InvalidInput."""
    problems = [str(problem) for problem in reading.problems]
    namespaces, found = Namespaces(reading.manifests), dict[str, list[Object]]()
    for manifest in reading.manifests:
        if not manifest.kind or not manifest.api_version:
            problems.append(f"{manifest.source}: an object without apiVersion or kind")
            continue
        try:
            existing = _existing_object(manifest, namespaces, namespace, now)
            found.setdefault(kind_of(manifest.document), []).append(existing)
        except Unusable as unusable:
            problems += map(str, unusable.problems)
    if problems:
        raise InvalidInput(problems)
    for kind in (*FRONT_ENDS, *TOPOLOGIES):
        found.setdefault(kind, [])
    for system in SYSTEMS:
        # A server that has one kind of a system has all its kinds.
        if not found.keys().isdisjoint(system.kinds.keys() & system.queue_kinds):
            for kind in system.kinds:
                found.setdefault(kind, [])
    return found


def _existing_object(manifest: Manifest, namespaces: Namespaces, namespace: str, now: float) -> Object:
    given, target = manifest.document, find(manifest.api_version, manifest.kind)
    if target is not None and target.namespaced and not manifest.namespace:
        given.setdefault("metadata", {})["namespace"] = namespace
    made = decoded(manifest, namespaces) if target is not None else given
    metadata, own = made.setdefault("metadata", {}), given.get("metadata") or {}
    metadata["uid"] = own.get("uid") or "/".join((manifest.kind, *key_of(made)))
    metadata["resourceVersion"] = own.get("resourceVersion") or "1"
    metadata["creationTimestamp"] = own.get("creationTimestamp") or text_of(now)
    return {**made, "status": given["status"]} if given.get("status") else made
