"""Migration from client-side to server-side apply.

`kubectl apply` without a server keeps what it applied in an annotation. When `kubectl` then applies on the server, it
may take over the fields that the annotation names and nobody changed since, and the annotation follows.
"""

from __future__ import annotations

import msgspec

from dray.api.objects import Object, mapping, walk
from dray.server.fieldmanager.field_set import FieldSet, difference, union
from dray.server.fieldmanager.field_types import FieldType
from dray.server.fieldmanager.walks import compare, owned

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MANAGER = "kubectl"


def takeable(live: Object, kind: FieldType) -> FieldSet:
    """Returns the fields of the live object that still have the values that `kubectl` applied."""
    try:
        last = mapping(msgspec.json.decode(str(walk(live, "metadata", "annotations").get(ANNOTATION, ""))))
    except (msgspec.DecodeError, RecursionError):
        return {}
    if last.get("apiVersion") != live.get("apiVersion"):
        return {}
    changes = compare(kind, last, live)
    return difference(owned(kind, last), union(changes.changed, changes.removed))


def follow(obj: Object, applied: Object) -> Object:
    """Returns the object with its last-applied annotation, if any, set to the present configuration."""
    annotations = walk(obj, "metadata", "annotations")
    if ANNOTATION not in annotations:
        return obj
    metadata = dict(mapping(applied.get("metadata")))
    metadata.pop("managedFields", None)
    kept = {name: text for name, text in mapping(metadata.get("annotations")).items() if name != ANNOTATION}
    metadata["annotations"] = kept
    last = msgspec.json.encode({**applied, "metadata": metadata}, order="sorted").decode() + "\n"
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, ANNOTATION: last}}}
