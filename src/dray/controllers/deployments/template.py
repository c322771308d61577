"""A ReplicaSet made from a Deployment: the template's hash is in its name, its selector and the labels of its pods."""

from __future__ import annotations

import json
from typing import Final

from dray.api.objects import Object, labels_of, metadata_of, spec_of
from dray.controllers.deployments.revisions import HASH
from dray.controllers.kinds import DEPLOYMENTS
from dray.controllers.workloads.pod_template import reference

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_OFFSET: Final = 2166136261
_PRIME: Final = 16777619
_WORD: Final = 0xFFFFFFFF


def template_hash(template: Object, collisions: int | None) -> str:
    """Returns the hash of a template; `collisions` changes it if another ReplicaSet has taken the name."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    if collisions is not None:
        text += f"#{collisions}"
    value = _OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _PRIME) & _WORD
    # Letters that make no words, as in generated names.
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))


def replica_set(deployment: Object, annotations: dict[str, str], replicas: int) -> Object:
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    hash_ = template_hash(template, (deployment.get("status") or {}).get("collisionCount"))
    labels = {**labels_of(template), HASH: hash_}
    selector = spec["selector"]
    made: Object = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: hash_}},
        "template": {"metadata": {**metadata_of(template), "labels": labels}, "spec": spec_of(template)},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "annotations": annotations,
            "ownerReferences": [reference(deployment, DEPLOYMENTS)],
        },
        "spec": made,
    }
