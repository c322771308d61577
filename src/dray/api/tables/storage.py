"""Rows of volumes, claims for them and classes of storage."""

from __future__ import annotations

from typing import Any

from dray.api.cluster_kinds import STORAGE_GROUP
from dray.api.objects import Object, annotations_of, is_deleting, mapping, status_of
from dray.api.tables.column import AGE, NAME, Column

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_OLD_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET = "<unset>"


def is_default(storage_class: Object) -> bool:
    given = annotations_of(storage_class)
    return "true" in (given.get(DEFAULT_CLASS), given.get(_OLD_DEFAULT_CLASS))


def _modes(holder: Object) -> str:
    given = holder.get("accessModes") or []
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in given)


def _phase(obj: Object, now: str) -> str:
    return "Terminating" if is_deleting(obj) else str(status_of(obj).get("phase") or "")


def _spec(member: str, missing: str = "") -> Any:
    return lambda obj, now: str(obj["spec"].get(member) or missing)


def _claim_of(volume: Object, now: str) -> str:
    reference = mapping(volume["spec"].get("claimRef"))
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _claim_capacity(claim: Object, now: str) -> str:
    return (
        str(mapping(status_of(claim).get("capacity")).get("storage") or "") if claim["spec"].get("volumeName") else ""
    )


def _claim_modes(claim: Object, now: str) -> str:
    return _modes(status_of(claim)) if claim["spec"].get("volumeName") else ""


def _class_name(storage_class: Object, now: str) -> str:
    name = str(storage_class["metadata"].get("name", ""))
    return f"{name} (default)" if is_default(storage_class) else name


def _member(member: str, missing: str = "") -> Any:
    return lambda obj, now: str(obj.get(member) or missing)


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "PersistentVolume"): (
        NAME,
        Column("Capacity", lambda obj, now: mapping(obj["spec"].get("capacity")).get("storage", "")),
        Column("Access Modes", lambda obj, now: _modes(obj["spec"])),
        Column("Reclaim Policy", _spec("persistentVolumeReclaimPolicy")),
        Column("Status", _phase),
        Column("Claim", _claim_of),
        Column("StorageClass", _spec("storageClassName")),
        Column("VolumeAttributesClass", _spec("volumeAttributesClassName", _UNSET)),
        Column("Reason", lambda obj, now: status_of(obj).get("reason", "")),
        AGE,
        Column("VolumeMode", _spec("volumeMode", _UNSET), wide=True),
    ),
    ("", "PersistentVolumeClaim"): (
        NAME,
        Column("Status", _phase),
        Column("Volume", _spec("volumeName")),
        Column("Capacity", _claim_capacity),
        Column("Access Modes", _claim_modes),
        Column("StorageClass", _spec("storageClassName")),
        Column("VolumeAttributesClass", _spec("volumeAttributesClassName", _UNSET)),
        AGE,
        Column("VolumeMode", _spec("volumeMode", _UNSET), wide=True),
    ),
    (STORAGE_GROUP, "StorageClass"): (
        Column("Name", _class_name, format="name"),
        Column("Provisioner", _member("provisioner")),
        Column("ReclaimPolicy", _member("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", _member("volumeBindingMode", _UNSET)),
        Column("AllowVolumeExpansion", lambda obj, now: "true" if obj.get("allowVolumeExpansion") else "false"),
        AGE,
    ),
    (STORAGE_GROUP, "VolumeAttachment"): (
        NAME,
        Column("Attacher", _spec("attacher"), format="name"),
        Column("PV", lambda obj, now: mapping(obj["spec"].get("source")).get("persistentVolumeName") or ""),
        Column("Node", _spec("nodeName")),
        Column("Attached", lambda obj, now: str(bool(status_of(obj).get("attached"))).lower(), type="boolean"),
        AGE,
    ),
    (STORAGE_GROUP, "VolumeAttributesClass"): (NAME, Column("DriverName", _member("driverName")), AGE),
    (STORAGE_GROUP, "CSINode"): (
        NAME,
        Column("Drivers", lambda obj, now: len(obj["spec"].get("drivers") or []), type="integer"),
        AGE,
    ),
    (STORAGE_GROUP, "CSIDriver"): (
        NAME,
        Column("AttachRequired", lambda obj, now: bool(obj["spec"].get("attachRequired", True)), type="boolean"),
        Column("PodInfoOnMount", lambda obj, now: bool(obj["spec"].get("podInfoOnMount")), type="boolean"),
        Column("StorageCapacity", lambda obj, now: bool(obj["spec"].get("storageCapacity"))),
        Column("TokenRequests", lambda obj, now: _tokens(obj)),
        Column("RequiresRepublish", lambda obj, now: bool(obj["spec"].get("requiresRepublish")), type="boolean"),
        Column("Modes", lambda obj, now: ",".join(obj["spec"].get("volumeLifecycleModes") or [])),
        AGE,
    ),
    (STORAGE_GROUP, "CSIStorageCapacity"): (
        NAME,
        Column("StorageClassName", _member("storageClassName"), format="name"),
        Column("Capacity", _member("capacity")),
    ),
}


def _tokens(driver: Object) -> str:
    requests = driver["spec"].get("tokenRequests") or []
    return ",".join(request.get("audience", "") for request in requests) or _UNSET
