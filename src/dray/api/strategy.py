"""Strategies of kinds, as Kubernetes has them: what happens to an object between decoding and validation.

Create clears the status, an update keeps the stored one, a status update keeps everything else. Objects are in hub
form (conversion.py) and are changed in place; `old` is never changed.
"""

from __future__ import annotations

from typing import Any

from dray.api import disabled_fields, service_addresses
from dray.api.catalogue import ADMISSION_GROUP, CERTIFICATES_GROUP, RESOURCE_GROUP, SCHEDULING_GROUP, Kind
from dray.api.gates import FeatureGates
from dray.api.objects import Object, mapping, take_members
from dray.api.pod_defaults import admit_pod, qos_class, tolerate_eviction
from dray.api.resource_claims import allocation_results

PODGROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"

_DEVICE_KEY = ("driver", "pool", "device", "shareID")
# What the status of some kinds cannot change besides; that of others can.
_STATUS_ALONE = ("labels", "annotations", "finalizers", "ownerReferences")
_STATUS_ALONE_GROUPS = frozenset(
    {
        ADMISSION_GROUP,
        "apiextensions.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        RESOURCE_GROUP,
        SCHEDULING_GROUP,
        "storagemigration.k8s.io",
    }
)
_STATUS_ALONE_KINDS = frozenset({"CSINode", "PodCertificateRequest", "ServiceCIDR", "VolumeAttachment"})
# A pod's status written by somebody who does not know these leaves them as they are; an empty list clears one.
_KEPT_POD_STATUS = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
# A node registers itself together with what it has.
_BORN_WITH_STATUS = frozenset({("", "Node")})
_BORN_PENDING = frozenset({("", "PersistentVolume"), ("", "PersistentVolumeClaim")})
SERVER_OWNED = tuple("uid creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink generation".split())


def _prepare_metadata(metadata: Object, kind: Kind) -> None:
    for member in SERVER_OWNED:
        metadata.pop(member, None)
    if kind.generation:
        metadata["generation"] = 1
    if (kind.group, kind.name) == (SCHEDULING_GROUP, "PodGroup"):
        finalizers = metadata.setdefault("finalizers", [])
        if PODGROUP_FINALIZER not in finalizers:
            finalizers.append(PODGROUP_FINALIZER)


def prepare_create(obj: Object, kind: Kind, gates: FeatureGates) -> None:
    _prepare_metadata(obj["metadata"], kind)
    if "status" in kind.subresources and "status" in obj and (kind.group, kind.name) not in _BORN_WITH_STATUS:
        obj["status"] = {}
    if (kind.group, kind.name) in _BORN_PENDING:
        obj["status"] = {"phase": "Pending"}
    if (kind.group, kind.name) == (RESOURCE_GROUP, "ResourcePoolStatusRequest"):
        obj.pop("status", None)
    if (kind.group, kind.name) == ("", "Pod"):
        admit_pod(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
    disabled_fields.drop(obj, None, kind, gates)


def prepare_update(obj: Object, old: Object, kind: Kind, gates: FeatureGates, *, now: str) -> None:
    take_members(obj["metadata"], old["metadata"], SERVER_OWNED)
    if "status" in kind.subresources:
        take_members(obj, old, ("status",))
    if (kind.group, kind.name) == (RESOURCE_GROUP, "DeviceTaintRule"):
        _refresh_time_added(obj["spec"]["taint"], old["spec"]["taint"], now)
    if _is_signing_request(kind):
        take_members(obj, old, ("spec",))
    if (kind.group, kind.name) == ("", "Service"):
        service_addresses.keep(obj, old)
    if (kind.group, kind.name) == ("", "Pod"):
        tolerate_eviction(obj["spec"])
    disabled_fields.drop(obj, old, kind, gates)


def count_generation(obj: Object, old: Object, kind: Kind) -> None:
    """Increments the generation if the spec changed. Both objects must be in stored form, without empty lists."""
    if kind.generation and _counted(obj, kind) != _counted(old, kind):
        obj["metadata"] = {**obj["metadata"], "generation": old["metadata"].get("generation", 0) + 1}


def _is_signing_request(kind: Kind) -> bool:
    return (kind.group, kind.name) == (CERTIFICATES_GROUP, "CertificateSigningRequest")


def _counted(obj: Object, kind: Kind) -> Any:
    """Returns the part of an object whose changes count for its generation; the whole object if it has no spec."""
    if (kind.group, kind.name) == ("apps", "Deployment"):
        # Its annotations are copied to its ReplicaSets.
        return obj["spec"], obj["metadata"].get("annotations") or {}
    if kind.name == "PodTemplate":
        return obj["template"]
    if "spec" in obj:
        return obj["spec"]
    return {**obj, "metadata": obj["metadata"].get("labels")}


def prepare_status_update(obj: Object, old: Object, kind: Kind, gates: FeatureGates, *, now: str) -> None:
    take_members(obj["metadata"], old["metadata"], SERVER_OWNED)
    if kind.group in _STATUS_ALONE_GROUPS or kind.name in _STATUS_ALONE_KINDS:
        take_members(obj["metadata"], old["metadata"], _STATUS_ALONE)
    elif kind.name == "Deployment":
        take_members(obj["metadata"], old["metadata"], ("labels",))
    elif kind.name == "Pod":
        take_members(obj["metadata"], old["metadata"], ("ownerReferences",))
    take_members(obj, old, ("spec",))
    disabled_fields.drop(obj, old, kind, gates)
    if (kind.group, kind.name) == (RESOURCE_GROUP, "ResourceClaim"):
        _drop_stale_devices(obj["status"], old["status"])
    if _is_signing_request(kind):
        _date_conditions(obj["status"], old["status"], now)
    if (kind.group, kind.name) == ("", "Pod"):
        for member in _KEPT_POD_STATUS:
            if member in old["status"]:
                obj["status"].setdefault(member, old["status"][member])


def prepare_approval(obj: Object, old: Object, *, now: str) -> None:
    """Prepares an approval of a CertificateSigningRequest: only its conditions and plain metadata may change."""
    conditions = mapping(obj.get("status")).get("conditions") or []
    take_members(obj, old, ("spec", "status"))
    take_members(obj["metadata"], old["metadata"], SERVER_OWNED)
    obj["status"] = {**mapping(old.get("status")), "conditions": conditions}
    _date_conditions(obj["status"], mapping(old.get("status")), now)


def _date_conditions(status: Object, old: Object, now: str) -> None:
    before = {present.get("type"): present.get("status") for present in old.get("conditions") or ()}
    for condition in status.get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime") or before.get(condition.get("type")) != condition.get("status"):
            condition["lastTransitionTime"] = now


def _refresh_time_added(taint: Object, old: Object, now: str) -> None:
    """A taint whose effect changed starts to count anew, unless the client says from when."""
    if taint["effect"] != old["effect"] and taint.get("timeAdded") == old.get("timeAdded"):
        taint["timeAdded"] = now


def _drop_stale_devices(status: Object, old: Object) -> None:
    """The status of a device goes with its allocation."""
    if not status.get("devices"):
        return
    gone = _allocated(old) - _allocated(status)
    if gone:
        status["devices"] = [device for device in status["devices"] if _key(device) not in gone]
        if not status["devices"]:
            del status["devices"]


def _allocated(status: Object) -> set[tuple[Any, ...]]:
    allocation = mapping(status.get("allocation"))
    return {_key(result) for result in allocation_results(allocation)}


def _key(value: Object) -> tuple[Any, ...]:
    return tuple(value.get(member) for member in _DEVICE_KEY)
