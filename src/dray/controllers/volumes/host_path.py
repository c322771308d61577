"""Host-path volumes: directories of a node, made for claims of a class whose provisioner is `dray.dev/host-path`.

A node says in an annotation where it keeps volumes. The directory is made by the node when a pod first mounts it; what
is to be removed is noted on the Node, and the agent of the node removes it.
"""

from __future__ import annotations

from typing import Final

from dray.api.cluster_kinds import STORAGE_GROUP
from dray.api.objects import Object, annotations_of, key_of, labels_of, mappings, spec_of, strings, uid_of, walk
from dray.api.tables.storage import DEFAULT_CLASS
from dray.api.volumes import (
    BOUND_BY_CONTROLLER,
    HOST_PATH_PROVISIONER,
    PROVISIONED_BY,
    VOLUME_DIRECTORY,
    requested,
)

CLASS_NAME: Final = "standard"
_HOSTNAME: Final = "kubernetes.io/hostname"


class NotProvisioned(Exception):
    """The node cannot provide a volume for the claim."""


def storage_class(*, default: bool) -> Object:
    metadata: Object = {"name": CLASS_NAME}
    if default:
        metadata["annotations"] = {DEFAULT_CLASS: "true"}
    return {
        "apiVersion": f"{STORAGE_GROUP}/v1",
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": HOST_PATH_PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume_for(claim: Object, chosen: Object, node: Object | None, node_name: str) -> Object:
    """Builds a volume for the claim, of class `chosen`. Raises NotProvisioned."""
    directory = annotations_of(node or {}).get(VOLUME_DIRECTORY)
    if node is None or not directory:
        raise NotProvisioned(f"node {node_name} cannot store volumes: it has no agent of dray")
    spec = spec_of(claim)
    if spec.get("volumeMode") == "Block":
        raise NotProvisioned("directories of a node are not block devices: volumeMode must be Filesystem")
    if spec.get("selector") is not None:
        raise NotProvisioned("claim.spec.selector is not supported for volumes that are created for a claim")
    namespace, claim_name = key_of(claim)
    name = f"pvc-{uid_of(claim)}"
    hostname = {"key": _HOSTNAME, "operator": "In", "values": [labels_of(node).get(_HOSTNAME) or node_name]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: HOST_PATH_PROVISIONER, BOUND_BY_CONTROLLER: "yes"},
        },
        "spec": {
            "capacity": {"storage": str(requested(claim))},
            "accessModes": list(spec["accessModes"]),
            "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy") or "Delete",
            "storageClassName": key_of(chosen)[1],
            "volumeMode": "Filesystem",
            "hostPath": {"path": f"{directory}/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": claim_name,
                "uid": uid_of(claim),
            },
        },
    }


def is_ours(volume: Object) -> bool:
    return annotations_of(volume).get(PROVISIONED_BY) == HOST_PATH_PROVISIONER


def node_name_of(volume: Object) -> str:
    """Returns the hostname of the volume's node; "" if its node affinity has another form."""
    for term in mappings(walk(volume, "spec", "nodeAffinity", "required").get("nodeSelectorTerms")):
        for expression in mappings(term.get("matchExpressions")):
            if expression.get("key") == _HOSTNAME:
                return next(iter(strings(expression.get("values"))), "")
    return ""
