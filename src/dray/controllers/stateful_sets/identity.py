"""The identity of a StatefulSet's pod: its ordinal, and the name, labels and volume claims that follow from it."""

from __future__ import annotations

import re
from typing import Final

from dray.api.objects import Object, key_of, labels_of, mapping, metadata_of
from dray.controllers.kinds import PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from dray.controllers.workloads import pod_template
from dray.controllers.workloads.revisions import HASH_LABEL

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_ORDINAL: Final = re.compile(r"(.*)-([0-9]{1,10})", re.ASCII | re.DOTALL)


def ordinal(stateful_set: Object, pod: Object) -> int | None:
    """Returns the ordinal in the pod's name; None if the name is not one of this StatefulSet's."""
    match = _ORDINAL.fullmatch(key_of(pod)[1])
    if match is None or match[1] != key_of(stateful_set)[1] or str(int(match[2])) != match[2]:
        return None
    return int(match[2])


def is_member(stateful_set: Object, pod: Object) -> bool:
    return ordinal(stateful_set, pod) is not None


def labels(stateful_set: Object, number: int) -> dict[str, str]:
    return {NAME_LABEL: f"{key_of(stateful_set)[1]}-{number}", INDEX_LABEL: str(number)}


def pod(stateful_set: Object, number: int, template: Object, revision: str) -> Object:
    made = pod_template.pod(stateful_set, STATEFUL_SETS, template)
    metadata, spec = made["metadata"], made["spec"]
    metadata["name"] = name = f"{key_of(stateful_set)[1]}-{number}"
    metadata["labels"] = {**metadata.get("labels", {}), **labels(stateful_set, number), HASH_LABEL: revision}
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    volumes = [
        {"name": key_of(claim_template)[1], "persistentVolumeClaim": {"claimName": claim_name(claim_template, name)}}
        for claim_template in claim_templates(stateful_set)
    ]
    own = {volume["name"] for volume in volumes}
    volumes += [volume for volume in spec.get("volumes") or () if volume.get("name") not in own]
    if volumes:
        spec["volumes"] = volumes
    return made


def claim_templates(stateful_set: Object) -> list[Object]:
    return stateful_set["spec"].get("volumeClaimTemplates") or []


def claim_name(template: Object, pod_name: str) -> str:
    """A template without a name, which the API server takes, makes a claim that it does not take."""
    return f"{key_of(template)[1]}-{pod_name}"


def claims(stateful_set: Object, pod_name: str) -> list[Object]:
    """Builds the volume claims that the pod needs."""
    selected = mapping(mapping(stateful_set["spec"].get("selector")).get("matchLabels"))
    found = []
    for template in claim_templates(stateful_set):
        metadata = {
            "name": claim_name(template, pod_name),
            "namespace": key_of(stateful_set)[0],
            "labels": {**labels_of(template), **selected},
            "annotations": dict(metadata_of(template).get("annotations") or {}),
        }
        kind = {"apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version, "kind": PERSISTENT_VOLUME_CLAIMS.kind}
        found.append({**kind, "metadata": metadata, "spec": dict(template["spec"])})
    return found
