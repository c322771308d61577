"""Jobs as groups, where their pods belong to a queue system: the annotations of KAI on a Job, and those of Kueue about
topology on its pods.

Only Jobs are read whose pods carry a label or annotation of such a system, and only by those pods are they named.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, controller_of, key_of, labels_of, mapping, text, walk
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups import kai
from dray.scheduling.groups import kueue as kueue_groups
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue import kinds as kueue

API_GROUP: Final = "batch"
KIND: Final = "Job"
PLURAL: Final = "jobs"


def read(document: Object, known: Topologies) -> list[Group]:
    spec = mapping(document.get("spec"))
    template = mapping(spec.get("template"))
    said, pods = annotations_of(document), annotations_of(template)
    if not _is_marked(template):
        return []
    by_pods = kueue_groups.speaks_of_topology(pods)
    queue = text(labels_of(document).get(kueue.QUEUE_LABEL) or labels_of(template).get(kueue.QUEUE_LABEL))
    among = known.of_queue((key_of(document)[0], queue))
    topology, unknown = kueue_groups.topology_of(pods, known, among) if by_pods else kai.job_topology(document, known)
    least = kueue_groups.count_of(said.get(kai.MIN_MEMBER))
    if not least and topology:
        # All that run at once.
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
    """What is said of its pods that nobody acts on."""
    if kueue_groups.PODSET_GROUP not in annotations_of(walk(document, "spec", "template")):
        return []
    return [f"the annotation {kueue_groups.PODSET_GROUP}: a Job is placed by itself"]


def group_of(pod: Any) -> GroupKey | None:
    """The Job that a pod is of, if it may be a group."""
    owner = controller_of(pod)
    if owner is None or owner.get("kind") != KIND or not _is_marked(pod):
        return None
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), text(owner.get("name")), KIND)


def _is_marked(pod: Any) -> bool:
    labels, annotations = labels_of(pod), annotations_of(pod)
    return kueue_groups.speaks_of_topology(annotations) or any(
        each.startswith(kai.PREFIX) for each in (*labels, *annotations)
    )
