"""Jobs as groups: annotations of KAI on a Job, and annotations of Kueue on its pods that request a topology.

A Job is a group only if its pod template has a label or annotation of one of these systems.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, controller_of, key_of, labels_of, mapping, text, walk
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups import kai
from dray.scheduling.groups import kueue as kueue_groups
from dray.scheduling.groups.group_api import FrontEnd, GroupApi
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue

API_GROUP: Final = "batch"
KIND: Final = "Job"
PLURAL: Final = "jobs"


def read(document: Object, known: Topologies) -> list[Group]:
    spec = mapping(document.get("spec"))
    template = mapping(spec.get("template"))
    annotations, pod_annotations = annotations_of(document), annotations_of(template)
    if not _is_marked(template):
        return []
    by_pods = kueue_groups.requests_topology(pod_annotations)
    queue = text(labels_of(document).get(kueue.QUEUE_LABEL) or labels_of(template).get(kueue.QUEUE_LABEL))
    among = known.of_queue((key_of(document)[0], queue))
    if by_pods:
        topology, unknown = kueue_groups.topology_of(pod_annotations, known, among)
    else:
        topology, unknown = kai.job_topology(document, known)
    least = kueue_groups.count_of(annotations.get(kai.MIN_MEMBER))
    if not least and topology:
        # All pods of the Job that run at the same time.
        completions = spec.get("completions")
        most = bounded(completions, 0, INT32_MAX) if completions is not None else INT32_MAX
        least = min(bounded(spec.get("parallelism", 1), 0, INT32_MAX), most)
    group = Group(
        GroupKey(API_GROUP, *key_of(document), KIND),
        text(document["metadata"].get("uid")),
        least,
        None,
        topology,
        least > 1,
        document,
        queue=text(labels_of(document).get(kai_queue.QUEUE_LABEL) or labels_of(document).get(kueue.QUEUE_LABEL)),
        priority_class="" if by_pods else text(labels_of(document).get(kai.PRIORITY_LABEL)),
        unknown=unknown,
    )
    return [group]


def ignored(document: Object) -> list[str]:
    """Annotations of the pod template that have no effect here, each with an explanation."""
    if kueue_groups.PODSET_GROUP not in annotations_of(walk(document, "spec", "template")):
        return []
    return [f"the annotation {kueue_groups.PODSET_GROUP}: a Job is placed by itself"]


def group_of(pod: Any) -> GroupKey | None:
    """The Job that a pod belongs to, if the Job may be a group."""
    owner = controller_of(pod)
    if owner is None or owner.get("kind") != KIND or not _is_marked(pod):
        return None
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), text(owner.get("name")), KIND)


def _is_marked(pod: Any) -> bool:
    labels, annotations = labels_of(pod), annotations_of(pod)
    return kueue_groups.requests_topology(annotations) or any(
        name.startswith(kai.PREFIX) for name in (*labels, *annotations)
    )


def named_kinds(pod: Object) -> tuple[str, ...]:
    """The kinds of the objects that a pod of a Job names."""
    return (kueue_groups.TOPOLOGY_KIND,) if kueue_groups.requests_topology(annotations_of(pod)) else (kai.GROUP,)


def stale_after(group: Group) -> float | None:
    return kai.stale_after(group) if kai.STALENESS in annotations_of(group.document) else None


API: Final = GroupApi(
    api_group=API_GROUP,
    group_of=group_of,
    kinds={KIND: FrontEnd(API_GROUP, KIND, PLURAL, read, ignored, has_priority=True)},
    named_kinds=named_kinds,
    has_topology=True,
    is_elastic=True,
    stale_after=stale_after,
)
