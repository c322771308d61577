"""Groups of `scheduling.k8s.io`, Kubernetes' own API: PodGroup and CompositePodGroup.

A pod names its PodGroup in `spec.schedulingGroup`. Groups name the CompositePodGroup that is their parent.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, bounded, key_of, mapping, mappings, text, walk
from dray.api.pods import group_name
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups.group_api import FrontEnd, GroupApi
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey, Topology

API_GROUP: Final = "scheduling.k8s.io"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
COMPOSITE: Final = "CompositePodGroup"
COMPOSITE_PLURAL: Final = "compositepodgroups"


def read(document: Object, _known: Topologies) -> list[Group]:
    return [_group(document, KIND)]


def read_composite(document: Object, _known: Topologies) -> list[Group]:
    return [_group(document, COMPOSITE)]


def _group(document: Object, kind: str) -> Group:
    spec = mapping(document.get("spec"))
    gang, priority = walk(spec, "schedulingPolicy").get("gang"), spec.get("priority")
    member = "minCount" if kind == KIND else "minGroupCount"
    least = bounded(mapping(gang).get(member), 1, INT32_MAX) if gang is not None else 0
    topology = mappings(walk(spec, "schedulingConstraints").get("topology"))
    namespace, name = key_of(document)
    parent = text(spec.get("parentCompositePodGroupName"))
    return Group(
        GroupKey(API_GROUP, namespace, name, kind),
        text(document["metadata"].get("uid")),
        least if kind == KIND else 0,
        bounded(priority, INT32_MIN, INT32_MAX) if priority is not None else None,
        Topology(required=(text(topology[0].get("key")),)) if topology else ANYWHERE,
        mapping(spec.get("disruptionMode")).get("all") is not None,
        document,
        parent=GroupKey(API_GROUP, namespace, parent, COMPOSITE) if parent else None,
        min_groups=least if kind == COMPOSITE else 0,
        ordered_by_pods=True,
    )


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod names."""
    name = group_name(pod)
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name) if name else None


API: Final = GroupApi(
    api_group=API_GROUP,
    group_of=group_of,
    kinds={
        KIND: FrontEnd(API_GROUP, KIND, PLURAL, read),
        COMPOSITE: FrontEnd(API_GROUP, COMPOSITE, COMPOSITE_PLURAL, read_composite),
    },
)
