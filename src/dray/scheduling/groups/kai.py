"""Groups of `scheduling.run.ai`, the API of KAI: PodGroup with a tree of sub-groups.

A pod names its PodGroup by an annotation and its sub-group by a label. Levels of a Topology of `kai.scheduler` are
named by their node label or alias. `ignored` lists the fields that have no effect here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, key_of, labels_of, mapping, mappings, text, walk
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups.group_api import FrontEnd, GroupApi
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey, Topology
from dray.scheduling.quota.kai import queue
from dray.scheduling.quota.kai.queue import API_GROUP as API_GROUP

KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
GROUP: Final = f"{KIND}.{API_GROUP}"
"""The kind under which the scheduler receives objects."""
TOPOLOGY_API: Final = "kai.scheduler"
SUB_GROUP: Final = "SubGroup"
ANNOTATION: Final = "pod-group-name"
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
PREFIX: Final = "kai.scheduler/"
FRACTIONS: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "mps")
"""Annotations that ask for a share of a GPU without a claim."""
_TOPOLOGY: Final = "kai.scheduler/topology"
_REQUIRED: Final = "kai.scheduler/topology-required-placement"
_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
_SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
_SEGMENT_REQUIRED: Final = "kai.scheduler/segment-topology-required-placement"
_SEGMENT_PREFERRED: Final = "kai.scheduler/segment-topology-preferred-placement"
_LONGEST: Final = 10
# The schedulingBackoff of a group that is always retried.
_ALWAYS: Final = -1
PRIORITY_LABEL: Final = "priorityClassName"
PRIORITIES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Values of the PriorityClasses that KAI installs, used if there are no objects of these names."""
STALENESS: Final = "kai.scheduler/staleness-grace-period"
_GRACE: Final = 60.0


def read(document: Object, known: Topologies) -> list[Group]:
    """Returns the group, and its sub-groups."""
    spec, (namespace, name) = mapping(document.get("spec")), key_of(document)
    sub_groups = [entry for entry in mappings(spec.get("subGroups")) if entry.get("name")]
    names = {text(entry["name"]) for entry in sub_groups}
    top = GroupKey(API_GROUP, namespace, name)
    parents = [parent if (parent := text(entry.get("parent"))) in names else "" for entry in sub_groups]
    children = Counter(parents)
    groups = [_group(top, None, spec, document, known, children[""])]
    for entry, parent in zip(sub_groups, parents, strict=True):
        key = _sub_group_key(namespace, name, text(entry["name"]))
        parent_key = _sub_group_key(namespace, name, parent) if parent else top
        groups.append(_group(key, parent_key, entry, document, known, children[text(entry["name"])]))
    return groups


def _group(
    key: GroupKey, parent: GroupKey | None, spec: Object, document: Object, known: Topologies, children: int
) -> Group:
    """Returns a group or sub-group: `spec` is its part of the document, `children` the number of its sub-groups."""
    pod_group, least = mapping(document.get("spec")), bounded(spec.get("minMember"), 0, INT32_MAX)
    min_groups = spec.get("minSubGroup")
    constraint = mapping(spec.get("topologyConstraint"))
    topology, unknown = topology_of(
        known,
        text(constraint.get("topology")),
        text(constraint.get("requiredTopologyLevel")),
        text(constraint.get("preferredTopologyLevel")),
    )
    return Group(
        key,
        text(document["metadata"].get("uid")) if parent is None else f"{document['metadata'].get('uid')}/{key.name}",
        0 if children else least,
        None,
        topology,
        least > 1 or bool(children),
        document,
        parent=parent,
        # By default all sub-groups have to start together.
        min_groups=(bounded(min_groups, 0, INT32_MAX) if min_groups is not None else children) if children else 0,
        queue=text(pod_group.get("queue")),
        preemptible={"preemptible": True, "non-preemptible": False}.get(text(pod_group.get("preemptibility"))),
        priority_class=text(pod_group.get("priorityClassName")),
        unknown=unknown,
    )


def topology_of(known: Topologies, name: str, required: str, preferred: str) -> tuple[Topology, str]:
    """Returns the topology that the names stand for, and the name of a missing Topology or level (empty if all
    exist)."""
    if not (required or preferred):
        return ANYWHERE, ""
    levels = known.levels(TOPOLOGY_API, name)
    if levels is None:
        return ANYWHERE, f"Topology {name}"
    paths = [known.path(TOPOLOGY_API, name, level) if level else () for level in (required, preferred)]
    for level, path in zip((required, preferred), paths, strict=True):
        if path is None:
            return ANYWHERE, f"level {level} of Topology {name}"
    return Topology(paths[0] or (), paths[1] or (), levels=levels), ""


def job_topology(document: Object, known: Topologies) -> tuple[Topology, str]:
    """Returns the same as `topology_of`, from annotations of a Job and of its pod template (segments)."""
    of_job, of_pods = annotations_of(document), annotations_of(walk(document, "spec", "template"))
    name = text(of_job.get(_TOPOLOGY) or of_pods.get(_TOPOLOGY))
    topology, unknown = topology_of(known, name, text(of_job.get(_REQUIRED)), text(of_job.get(_PREFERRED)))
    annotations = (_SEGMENT_SIZE, _SEGMENT_REQUIRED, _SEGMENT_PREFERRED)
    size, required, preferred = (text(of_pods.get(annotation)) for annotation in annotations)
    number = int(size) if size.isdecimal() and len(size) < _LONGEST else 0
    if unknown or not (required or preferred) or number < 2:
        return topology, unknown
    inner, unknown = topology_of(known, name, required, preferred)
    slices = ((inner.required, number),)
    return replace(topology, slices=slices, slices_preferred=inner.preferred, levels=inner.levels), unknown


def ignored(document: Object) -> list[str]:
    """Fields that have no effect here, each with an explanation."""
    spec, fields = mapping(document.get("spec")), []
    if spec.get("markUnschedulable") is False:
        fields.append("spec.markUnschedulable: pods always report why they wait")
    if spec.get("schedulingBackoff") not in (None, _ALWAYS):
        fields.append("spec.schedulingBackoff: a group without room is retried whenever the cluster changes")
    return fields


def group_of(pod: Any) -> GroupKey | None:
    """The group or sub-group that a pod names."""
    name = text(annotations_of(pod).get(ANNOTATION))
    if not name:
        return None
    namespace, part = text(pod["metadata"].get("namespace")), text(labels_of(pod).get(SUB_GROUP_LABEL))
    return _sub_group_key(namespace, name, part) if part else GroupKey(API_GROUP, namespace, name)


def _sub_group_key(namespace: str, group: str, name: str) -> GroupKey:
    return GroupKey(API_GROUP, namespace, f"{group}/{name}", SUB_GROUP)


def named_kinds(pod: Object) -> tuple[str, ...]:
    """The kinds of the objects that a pod of such a group names."""
    return (queue.KIND,) if text(labels_of(pod).get(SUB_GROUP_LABEL)) else (queue.KIND, GROUP)


def stale_after(group: Group) -> float | None:
    """The grace period of a stale group, which the group may set itself. None (never stale) if it is negative."""
    period = mapping(group.document.get("spec")).get("stalenessGracePeriod")
    grace = queue.seconds(period if period is not None else annotations_of(group.document).get(STALENESS))
    if grace is None:
        return _GRACE
    return grace if grace >= 0 else None


API: Final = GroupApi(
    api_group=API_GROUP,
    group_of=group_of,
    kinds={GROUP: FrontEnd(API_GROUP, KIND, PLURAL, read, ignored, has_priority=True)},
    pod_marks=frozenset((ANNOTATION,)),
    named_kinds=named_kinds,
    topology_api=TOPOLOGY_API,
    is_elastic=True,
    priorities=PRIORITIES,
    unsupported_annotations=FRACTIONS,
    sub_group_label=SUB_GROUP_LABEL,
    stale_after=stale_after,
)
