"""PersistentVolumes and claims for them: readers that scheduler, controllers, server and node agent share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api.objects import Key, Object, annotations_of, key_of, mapping, mappings, spec_of, walk
from dray.api.quantity import Quantity

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim that waits for its first consumer: where its volume is to be made."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
HOST_PATH_PROVISIONER: Final = "dray.dev/host-path"
VOLUME_DIRECTORY: Final = "dray.dev/volume-directory"
"""Annotation of a node: where it keeps the volumes that are made on it."""
VOLUMES_TO_REMOVE: Final = "dray.dev/volumes-to-remove"
"""Annotation of a node: the names of volumes whose directories are to go, with commas between."""
# Sources whose Secret a node needs.
_SECRET_SOURCES: Final = ("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
_CSI_SECRETS: Final = ("nodeExpandSecretRef", "nodePublishSecretRef", "nodeStageSecretRef")
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def class_name(obj: Object) -> str | None:
    """Returns the storage class of a volume or a claim; "" means no class, None means unset."""
    old = annotations_of(obj).get(_CLASS)
    found = old if old is not None else spec_of(obj).get("storageClassName")
    return found if isinstance(found, str) else None


def requested(claim: Object) -> Quantity:
    return Quantity.parse(walk(claim, "spec", "resources", "requests").get("storage") or "0")


def capacity(volume: Object) -> Quantity:
    return Quantity.parse(walk(volume, "spec", "capacity").get("storage") or "0")


def is_bound(claim: Object) -> bool:
    return bool(spec_of(claim).get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def claim_reference(volume: Object) -> Object:
    return mapping(spec_of(volume).get("claimRef"))


def is_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is reserved for the claim: by name, and by uid where it says one."""
    reference = claim_reference(volume)
    if (reference.get("namespace"), reference.get("name")) != key_of(claim):
        return False
    return reference.get("uid") in (None, "", claim["metadata"]["uid"])


def claims_of(pod: Object) -> Iterator[tuple[Key, bool]]:
    """The keys of the pod's claims, each with whether it is made for the pod alone."""
    namespace, name = key_of(pod)
    for volume in mappings(spec_of(pod).get("volumes")):
        if "ephemeral" in volume:
            yield (namespace, f"{name}-{volume.get('name')}"), True
        elif claim := mapping(volume.get("persistentVolumeClaim")).get("claimName"):
            yield (namespace, str(claim)), False


def node_secrets(volume: Object) -> Iterator[Key]:
    """The keys of the Secrets that a node needs to mount the volume; by themselves they lie where its claim does."""
    spec, own = spec_of(volume), str(claim_reference(volume).get("namespace") or "")
    azure, csi = mapping(spec.get("azureFile")), mapping(spec.get("csi"))
    found = [mapping(mapping(spec.get(source)).get("secretRef")) for source in _SECRET_SOURCES]
    found += [mapping(csi.get(member)) for member in _CSI_SECRETS]
    found.append({"namespace": azure.get("secretNamespace"), "name": azure.get("secretName")})
    for reference in found:
        if name := reference.get("name"):
            yield str(reference.get("namespace") or own), str(name)


def volumes_to_remove(node: Object) -> list[str]:
    return [name for name in (annotations_of(node).get(VOLUMES_TO_REMOVE) or "").split(",") if name]
