"""Pods made from the template of a workload, and the reference by which an object names its controller."""

from __future__ import annotations

from dray.api.catalogue import KindVersion
from dray.api.names import is_subdomain
from dray.api.objects import Object, controller_reference, metadata_of, spec_of


def reference(owner: Object, kind: KindVersion) -> Object:
    """The owner reference of what the owner controls: a foreground deletion of the owner waits for it."""
    return {**controller_reference(kind.api_version, kind.kind, owner), "blockOwnerDeletion": True}


def pod(owner: Object, kind: KindVersion, template: Object) -> Object:
    """A pod without a name of its own: the server completes `generateName`."""
    given = metadata_of(template)
    metadata: Object = {
        "generateName": name_prefix(owner["metadata"]["name"]),
        "namespace": owner["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": dict(given.get("annotations") or {}),
        "finalizers": list(given.get("finalizers") or ()),
        "ownerReferences": [reference(owner, kind)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": dict(spec_of(template)),
    }


def name_prefix(owner: str) -> str:
    """The owner's name and a dash, unless that leads to no name of a pod."""
    return f"{owner}-" if is_subdomain(f"{owner}-a") else owner
