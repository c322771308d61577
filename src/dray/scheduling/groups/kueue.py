"""Groups of `kueue.x-k8s.io`: pods with the same group label; annotations of pods that request a topology.

There is no object for such a group: the labels and annotations of its pods describe it, its size included. Levels of a
topology are named by their node label.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, key_of, labels_of, mappings, text
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster.topologies import KIND as TOPOLOGY_OBJECT
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.groups.group_api import GroupApi
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey, Path, Topology
from dray.scheduling.quota.kueue.kinds import API_GROUP as API_GROUP
from dray.scheduling.quota.kueue.kinds import POD_GROUP_LABEL, QUEUE_LABEL

KIND: Final = "pods"
TOPOLOGY_KIND: Final = f"{TOPOLOGY_OBJECT}.{API_GROUP}"
MAX_EXEC_TIME_LABEL: Final = "kueue.x-k8s.io/max-exec-time-seconds"
COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
FAST: Final = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
PODSET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
SLICES: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
TOPOLOGY: Final = (REQUIRED, PREFERRED, UNCONSTRAINED, SLICE, SLICES)
_TOPOLOGY_NAMES: Final = frozenset(TOPOLOGY)
_MOST_SLICES: Final = 3


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod names."""
    name = text(labels_of(pod).get(POD_GROUP_LABEL))
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name, KIND) if name else None


def read_pod(pod: Object, known: Topologies) -> Group | None:
    """The group that the labels and annotations of a pod describe."""
    key = group_of(pod)
    if key is None:
        return None
    annotations = annotations_of(pod)
    queue = text(labels_of(pod).get(QUEUE_LABEL))
    among = known.of_queue((key.namespace, queue))
    topology, unknown = topology_of(annotations, known, among)
    number, fast = count_of(annotations.get(COUNT)), annotations.get(FAST) == "true"
    if number > 1 and not requests_topology(annotations):
        topology = _implied(known, among)
    return Group(
        key,
        key.title,
        min(1, number) if fast else number,
        None,
        topology,
        # Kueue evicts a Workload with all its pods.
        True,
        {"metadata": {"name": key.name, "namespace": key.namespace}},
        queue=queue,
        expected=number if fast else 0,
        kept=number if fast or annotations.get(SERVING) == "true" else 0,
        unknown=unknown,
    )


def count_of(value: Any) -> int:
    """The number in an annotation; 0 if it is missing or no number."""
    return bounded(int(value), 0, INT32_MAX) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else 0


def requests_topology(annotations: Any) -> bool:
    return bool(annotations) and not _TOPOLOGY_NAMES.isdisjoint(annotations)


def topology_of(annotations: Any, known: Topologies, among: Sequence[str] = ()) -> tuple[Topology, str]:
    """Returns the topology that annotations request, and the name of a missing Topology or level (empty if all exist).

    `among` are the names of preferred Topologies: those that the pod's queue uses.
    """
    if API_GROUP not in known.served or not requests_topology(annotations):
        return ANYWHERE, ""
    wanted = {name: text(annotations.get(name)) for name in (REQUIRED, PREFERRED)}
    slices = _slices(annotations)
    first = next((level for level in (*wanted.values(), *(level for level, _ in slices)) if level), "")
    name = known.with_level(API_GROUP, first, among)
    levels = known.levels(API_GROUP, name)
    if levels is None:
        return ANYWHERE, f"Topology with level {first}" if first else "Topology"
    paths: dict[str, Path] = {}
    for level in (*wanted.values(), *(level for level, _ in slices)):
        path = known.path(API_GROUP, name, level) if level else ()
        if path is None:
            return ANYWHERE, f"level {level} of Topology {name}"
        paths[level] = path
    return Topology(
        paths[wanted[REQUIRED]],
        paths[wanted[PREFERRED]],
        tuple((paths[level], size) for level, size in slices),
        levels,
        annotations.get(UNCONSTRAINED) == "true",
    ), ""


def _implied(known: Topologies, among: Sequence[str]) -> Topology:
    """The topology of pods that request none: the levels of the one Topology that the flavors of their queue name."""
    served = API_GROUP in known.served and len(among) == 1
    levels = known.levels(API_GROUP, among[0]) if served else None
    return Topology(levels=levels, least_free=True) if levels else ANYWHERE


def problem_of(annotations: Any, known: Topologies, among: Sequence[str] = ()) -> str:
    """Returns the problem with the levels and slices that annotations of a pod request; empty if there is none."""
    if not requests_topology(annotations) or API_GROUP not in known.served:
        return ""
    if annotations.get(SLICE) and not count_of(annotations.get(SLICE_SIZE)):
        return f"annotation {SLICE_SIZE} is missing or no positive number"
    slices = _slices(annotations)
    above = next((text(annotations[name]) for name in (REQUIRED, PREFERRED) if annotations.get(name)), "")
    named = [level for level in (above, *(level for level, _ in slices)) if level]
    name = known.with_level(API_GROUP, named[0] if named else "", among)
    depths: list[int] = []
    for level in named:
        path = known.path(API_GROUP, name, level)
        if path is None:
            return f"there is no level {level} in Topology {name}" if name else f"there is no level {level}"
        depths.append(len(path))
    for index, (upper, lower) in enumerate(pairwise(depths)):
        # The first slice may be of the level of all pods, a slice inside of another is of a finer one.
        if lower < upper or (lower == upper and not (above and index == 0)):
            return f"the topology of slices {named[index + 1]} is above {named[index]}, or the same"
    for (_, size), (_, inner) in pairwise(slices):
        if size % inner:
            return f"the size of slices {inner} does not divide the size {size} of those around them"
    return ""


def _slices(annotations: Any) -> list[tuple[str, int]]:
    """Levels of slices, the coarsest first, each with the number of pods that go to one domain of the level."""
    size = count_of(annotations.get(SLICE_SIZE))
    if annotations.get(SLICE) and size > 0:
        return [(text(annotations[SLICE]), size)]
    try:
        constraints = json.loads(text(annotations.get(SLICES)) or "[]")
    except (ValueError, RecursionError):
        return []
    parts = [
        (text(constraint.get("topology")), bounded(constraint.get("size"), 0, INT32_MAX))
        for constraint in mappings(constraints)
    ]
    return [(level, size) for level, size in parts if level and size > 0][:_MOST_SLICES]


def pod_topology(annotations: Mapping[str, str], known: Topologies) -> tuple[Topology, str] | None:
    """Returns the same as `topology_of`; None if the annotations request no topology. The group may be of any API."""
    return topology_of(annotations, known) if requests_topology(annotations) else None


def pod_problem(pod: Object, known: Topologies) -> str:
    annotations = annotations_of(pod)
    if not requests_topology(annotations):
        return ""
    queue = text(labels_of(pod).get(QUEUE_LABEL))
    return problem_of(annotations, known, known.of_queue((key_of(pod)[0], queue)))


API: Final = GroupApi(
    api_group=API_GROUP,
    group_of=group_of,
    pod_marks=frozenset((POD_GROUP_LABEL,)),
    named_kinds=lambda _: (TOPOLOGY_KIND,),
    read_pod=read_pod,
    topology_api=API_GROUP,
    pod_topology=pod_topology,
    pod_problem=pod_problem,
    has_topology=True,
    run_time_label=MAX_EXEC_TIME_LABEL,
)
