"""Groups of `scheduling.k8s.io`: PodGroup, to which a pod belongs by `spec.schedulingGroup`."""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, bounded, key_of, mapping, mappings, text, walk
from dray.api.pods import group_name
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.group_model import Group, GroupKey

API_GROUP: Final = "scheduling.k8s.io"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"


def read(document: Object) -> Group:
    spec = mapping(document.get("spec"))
    gang = walk(spec, "schedulingPolicy").get("gang")
    priority = spec.get("priority")
    topology = mappings(walk(spec, "schedulingConstraints").get("topology"))
    return Group(
        GroupKey(API_GROUP, *key_of(document)),
        text(document["metadata"].get("uid")),
        bounded(mapping(gang).get("minCount"), 1, INT32_MAX) if gang is not None else 0,
        bounded(priority, INT32_MIN, INT32_MAX) if priority is not None else None,
        text(topology[0].get("key")) if topology else "",
        mapping(spec.get("disruptionMode")).get("all") is not None,
        document,
    )


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to."""
    name = group_name(pod)
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name) if name else None
