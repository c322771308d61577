"""Groups of `scheduling.run.ai`: PodGroup with a tree of sub-groups; a pod names it by an annotation, and its sub-group
by a label.

Levels of a Topology of `kai.scheduler` are named by their node label or alias. What of a group nobody acts on is
listed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, key_of, labels_of, mapping, mappings, text, walk
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster import topologies
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey, Topology
from dray.scheduling.quota.kai.queue import API_GROUP as API_GROUP

KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
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
# As a schedulingBackoff: a group is never given up.
_ALWAYS: Final = -1
PRIORITY_LABEL: Final = "priorityClassName"
PRIORITIES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Of the classes that KAI brings along, where there are no objects of these names."""
STALENESS: Final = "kai.scheduler/staleness-grace-period"


def read(document: Object, known: Topologies) -> list[Group]:
    """The group, and its sub-groups."""
    spec, (namespace, name) = mapping(document.get("spec")), key_of(document)
    subs = [each for each in mappings(spec.get("subGroups")) if each.get("name")]
    names = {text(each["name"]) for each in subs}
    top = GroupKey(API_GROUP, namespace, name)
    parents = [parent if (parent := text(each.get("parent"))) in names else "" for each in subs]
    children = Counter(parents)
    found = [_group(top, None, spec, document, known, children[""])]
    for each, parent in zip(subs, parents, strict=True):
        key, above = _sub(namespace, name, text(each["name"])), _sub(namespace, name, parent) if parent else top
        found.append(_group(key, above, each, document, known, children[text(each["name"])]))
    return found


def _group(
    key: GroupKey, parent: GroupKey | None, spec: Object, document: Object, known: Topologies, children: int
) -> Group:
    whole, least = mapping(document.get("spec")), bounded(spec.get("minMember"), 0, INT32_MAX)
    groups = spec.get("minSubGroup")
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
        # All of them, unless it says otherwise.
        min_groups=(bounded(groups, 0, INT32_MAX) if groups is not None else children) if children else 0,
        queue=text(whole.get("queue")),
        preemptible={"preemptible": True, "non-preemptible": False}.get(text(whole.get("preemptibility"))),
        priority_class=text(whole.get("priorityClassName")),
        unknown=unknown,
    )


def topology_of(known: Topologies, name: str, required: str, preferred: str) -> tuple[Topology, str]:
    """What is wanted, and what of it nobody knows."""
    if not (required or preferred):
        return ANYWHERE, ""
    levels = known.levels(topologies.KAI, name)
    if levels is None:
        return ANYWHERE, f"Topology {name}"
    paths = [known.path(topologies.KAI, name, each) if each else () for each in (required, preferred)]
    for level, path in zip((required, preferred), paths, strict=True):
        if path is None:
            return ANYWHERE, f"level {level} of Topology {name}"
    return Topology(paths[0] or (), paths[1] or (), levels=levels), ""


def job_topology(document: Object, known: Topologies) -> tuple[Topology, str]:
    """By the annotations of a Job, and those about segments on its pods."""
    said, pods = annotations_of(document), annotations_of(walk(document, "spec", "template"))
    name = text(said.get(_TOPOLOGY) or pods.get(_TOPOLOGY))
    found, unknown = topology_of(known, name, text(said.get(_REQUIRED)), text(said.get(_PREFERRED)))
    names = (_SEGMENT_SIZE, _SEGMENT_REQUIRED, _SEGMENT_PREFERRED)
    size, required, preferred = (text(pods.get(each)) for each in names)
    number = int(size) if size.isdecimal() and len(size) < _LONGEST else 0
    if unknown or not (required or preferred) or number < 2:
        return found, unknown
    inner, unknown = topology_of(known, name, required, preferred)
    slices = ((inner.required, number),)
    return replace(found, slices=slices, slices_preferred=inner.preferred, levels=inner.levels), unknown


def ignored(document: Object) -> list[str]:
    """Members that nobody acts on."""
    spec, found = mapping(document.get("spec")), []
    if spec.get("markUnschedulable") is False:
        found.append("spec.markUnschedulable: pods say in any case why they wait")
    if spec.get("schedulingBackoff") not in (None, _ALWAYS):
        found.append("spec.schedulingBackoff: what has no place is tried again when something changes")
    return found


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to."""
    name = text(annotations_of(pod).get(ANNOTATION))
    if not name:
        return None
    namespace, part = text(pod["metadata"].get("namespace")), text(labels_of(pod).get(SUB_GROUP_LABEL))
    return _sub(namespace, name, part) if part else GroupKey(API_GROUP, namespace, name)


def _sub(namespace: str, group: str, name: str) -> GroupKey:
    return GroupKey(API_GROUP, namespace, f"{group}/{name}", SUB_GROUP)
