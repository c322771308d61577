"""Workloads from the pods of a snapshot or recording: each pod comes when it was created, with its own claims.

A pod that has ended runs as long as it ran, one with a time limit runs for that long, and others do not end. Claims
that several pods may use belong to the cluster (`shared_claims`), as do groups and queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dray.api.objects import Object, key_of, labels_of, owners_of, spec_of, status_of, uid_of
from dray.api.pods import claims_used
from dray.api.resource_claims import alternatives_of, requests_of, results_of
from dray.api.times import seconds_of
from dray.replay.device_units import WHOLE, DeviceName, PublishedDevice
from dray.replay.workloads import Workload
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL

_DAEMONS = ("DaemonSet", "Node")
"""Owners of pods that are bound to their node."""
Published = Mapping[DeviceName, PublishedDevice]


def recorded_workloads(objects: Mapping[str, Sequence[Object]], published: Published) -> list[Workload]:
    """The pods of the lists of a cluster in the order in which they were created."""
    claims = {key_of(claim): claim for claim in objects.get("ResourceClaim", ())}
    found = []
    for pod in objects.get("Pod", ()):
        if any(owner.get("kind") in _DAEMONS for owner in owners_of(pod)):
            continue
        own = [
            claim
            for _, name in claims_used(pod)
            if (claim := claims.get((key_of(pod)[0], name))) is not None and _is_owned(claim, pod)
        ]
        found.append(_workload(pod, own, published))
    return sorted(found, key=lambda workload: workload.created)


def shared_claims(objects: Mapping[str, Sequence[Object]]) -> list[Object]:
    """The claims that no pod owns, without their allocation."""
    return [
        {**claim, "status": {}}
        for claim in objects.get("ResourceClaim", ())
        if not any(owner.get("kind") == "Pod" for owner in owners_of(claim))
    ]


def _workload(pod: Object, claims: Sequence[Object], published: Published) -> Workload:
    devices = [device for claim in claims for device in _devices(claim, published)]
    units = sum(units for units, _ in devices)
    profile = devices[0][1] if len(devices) == 1 else ""
    created = seconds_of(pod["metadata"].get("creationTimestamp")) or 0.0
    queue = labels_of(pod).get(QUEUE_LABEL, "")
    make = partial(pod_objects, pod=pod, claims=claims)
    return Workload(make, units, profile or f"{units / WHOLE:g}", created, run_seconds(pod), queue)


def _devices(claim: Object, published: Published) -> Iterable[tuple[int, str]]:
    """The units and the profile of each device that is allocated, or else requested."""
    results = results_of(claim)
    for result in results:
        device = published.get((result["driver"], result["pool"], result["device"]))
        if device is not None:
            yield device.taken(result.get("consumedCapacity")), device.attributes.get("profile", "")
    for request in requests_of(claim["spec"]) if not results else ():
        for alternative in alternatives_of(request)[:1]:
            yield from [(WHOLE, "")] * int(alternative.get("count") or 1)


def run_seconds(pod: Object) -> float | None:
    """How long the pod ran or may run; None if nothing limits it."""
    started = seconds_of(status_of(pod).get("startTime"))
    statuses: Iterable[Any] = status_of(pod).get("containerStatuses") or ()
    ends = [
        seconds_of((each.get("state") or {}).get("terminated", {}).get("finishedAt"))
        for each in statuses
        if (each.get("state") or {}).get("terminated")
    ]
    known = [end for end in ends if end is not None]
    if known and started is not None and status_of(pod).get("phase") in ("Succeeded", "Failed"):
        return max(0.0, max(known) - started)
    limit = spec_of(pod).get("activeDeadlineSeconds")
    return float(limit) if limit is not None else None


def pod_objects(name: str, pod: Object, claims: Sequence[Object]) -> list[Object]:
    """The claims and the pod as they were before a scheduler saw them, under new names."""
    namespace = key_of(pod)[0]
    names = {key_of(claim)[1]: f"{name}-{number}" for number, claim in enumerate(claims)}
    made = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": names[key_of(claim)[1]], "namespace": namespace},
            "spec": claim["spec"],
        }
        for claim in claims
    ]
    spec = {key: value for key, value in spec_of(pod).items() if key not in ("nodeName", "resourceClaims")}
    entries = [{"name": entry["name"], "resourceClaimName": names.get(used, used)} for entry, used in claims_used(pod)]
    if entries:
        spec["resourceClaims"] = entries
    kept = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations", "ownerReferences")}
    metadata = {**kept, "name": name, "namespace": namespace}
    spec["schedulerName"] = "default-scheduler"
    return [
        *made,
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}},
    ]


def _is_owned(claim: Object, pod: Object) -> bool:
    return any(owner.get("uid") == uid_of(pod) for owner in owners_of(claim))
