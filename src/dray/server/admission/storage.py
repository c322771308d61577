"""Admission of volumes and claims for them: the default class, protection while in use, and growth."""

from __future__ import annotations

from dray.api.cluster_kinds import STORAGE_GROUP
from dray.api.objects import Object, annotations_of, mapping
from dray.api.quantity import Quantity
from dray.api.tables.storage import is_default
from dray.api.volumes import CLAIM_FINALIZER, VOLUME_FINALIZER
from dray.server import documents
from dray.server.admission import default_classes
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_CLASSES = key_prefix(STORAGE_GROUP, "storageclasses")
_FINALIZERS = {"PersistentVolume": VOLUME_FINALIZER, "PersistentVolumeClaim": CLAIM_FINALIZER}


def choose_class(attributes: Attributes) -> None:
    """Sets the default class of a claim without storageClassName; `""` means no class."""
    spec = attributes.obj["spec"]
    if spec.get("storageClassName") is not None or _OLD_CLASS in annotations_of(attributes.obj):
        return
    classes = (documents.decode(record.value) for record in attributes.context.store.list(_CLASSES).records)
    default = default_classes.chosen(filter(is_default, classes))
    if default is not None:
        spec["storageClassName"] = default


def protect(attributes: Attributes) -> None:
    finalizers = attributes.obj["metadata"].setdefault("finalizers", [])
    wanted = _FINALIZERS[attributes.resource.kind]
    if wanted not in finalizers:
        finalizers.append(wanted)


def check_growth(attributes: Attributes) -> None:
    """Refuses growth of a claim unless its class allows volume expansion."""
    old = attributes.old
    if attributes.subresource or old is None or _size(attributes.obj) <= _size(old):
        return
    name = attributes.obj["spec"].get("storageClassName")
    record = attributes.context.store.get(_CLASSES + name) if name else None
    if record is None or not documents.decode(record.value).get("allowVolumeExpansion"):
        raise attributes.forbid(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
            " must support resize"
        )


def _size(claim: Object) -> Quantity:
    amount = mapping(mapping(claim["spec"].get("resources")).get("requests")).get("storage") or "0"
    return Quantity.parse(amount)
