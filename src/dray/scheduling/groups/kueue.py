"""Groups of `kueue.x-k8s.io`: pods with the same label, whose number an annotation tells; what pods say of topology.

There is no object for such a group: what its pods say makes it. Levels of topology are named by the label of nodes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from dray.api.objects import Object, annotations_of, bounded, labels_of, mappings, text
from dray.api.quantity import INT32_MAX
from dray.scheduling.cluster import topologies
from dray.scheduling.cluster.topologies import Topologies
from dray.scheduling.model.group import ANYWHERE, Group, GroupKey, Path, Topology
from dray.scheduling.quota.kueue.kinds import API_GROUP as API_GROUP
from dray.scheduling.quota.kueue.kinds import POD_GROUP_LABEL, QUEUE_LABEL

KIND: Final = "pods"
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
_MOST_SLICES: Final = 3


def group_of(pod: Any) -> GroupKey | None:
    """The group that a pod says it belongs to."""
    name = text(labels_of(pod).get(POD_GROUP_LABEL))
    return GroupKey(API_GROUP, text(pod["metadata"].get("namespace")), name, KIND) if name else None


def read_pod(pod: Object, known: Topologies) -> Group | None:
    """The group that a pod makes by belonging to it."""
    key = group_of(pod)
    if key is None:
        return None
    said = annotations_of(pod)
    queue = text(labels_of(pod).get(QUEUE_LABEL))
    topology, unknown = topology_of(said, known, known.of_queue((key.namespace, queue)))
    number, fast = count_of(said.get(COUNT)), said.get(FAST) == "true"
    return Group(
        key,
        key.title,
        min(1, number) if fast else number,
        None,
        topology,
        # As the Workload of Kueue, which is evicted with all its pods.
        True,
        {"metadata": {"name": key.name, "namespace": key.namespace}},
        queue=queue,
        expected=number if fast else 0,
        kept=number if fast or said.get(SERVING) == "true" else 0,
        unknown=unknown,
    )


def count_of(said: Any) -> int:
    return bounded(int(said), 0, INT32_MAX) if isinstance(said, str) and said.isdecimal() and len(said) < 10 else 0


def speaks_of_topology(said: Any) -> bool:
    return any(each in said for each in TOPOLOGY)


def topology_of(said: Any, known: Topologies, among: Sequence[str] = ()) -> tuple[Topology, str]:
    """What annotations want, and what of it nobody knows. `among` are Topologies that are rather meant than others."""
    if topologies.KUEUE not in known.served or not speaks_of_topology(said):
        return ANYWHERE, ""
    wanted = {name: text(said.get(name)) for name in (REQUIRED, PREFERRED)}
    slices = _slices(said)
    first = next((each for each in (*wanted.values(), *(level for level, _ in slices)) if each), "")
    name = known.with_level(API_GROUP, first, among)
    levels = known.levels(topologies.KUEUE, name)
    if levels is None:
        return ANYWHERE, f"Topology with level {first}" if first else "Topology"
    paths: dict[str, Path] = {}
    for level in (*wanted.values(), *(level for level, _ in slices)):
        path = known.path(topologies.KUEUE, name, level) if level else ()
        if path is None:
            return ANYWHERE, f"level {level} of Topology {name}"
        paths[level] = path
    return Topology(
        paths[wanted[REQUIRED]],
        paths[wanted[PREFERRED]],
        tuple((paths[level], size) for level, size in slices),
        levels,
        said.get(UNCONSTRAINED) == "true",
    ), ""


def _slices(said: Any) -> list[tuple[str, int]]:
    """Levels with the number of pods that go to one domain of each, the coarse ones first."""
    size = count_of(said.get(SLICE_SIZE))
    if said.get(SLICE) and size > 0:
        return [(text(said[SLICE]), size)]
    try:
        found = json.loads(text(said.get(SLICES)) or "[]")
    except (ValueError, RecursionError):
        return []
    parts = [(text(each.get("topology")), bounded(each.get("size"), 0, INT32_MAX)) for each in mappings(found)]
    return [(level, size) for level, size in parts if level and size > 0][:_MOST_SLICES]
