"""Pods of wanted DaemonSets: one for each node that they select, as their controller makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.api.objects import Key, Object, controller_of, key_of, labels_of
from dray.api.pods import is_active
from dray.controllers.daemon_sets import template
from dray.controllers.daemon_sets.placement import Requirements

if TYPE_CHECKING:
    from dray.planning.scene import Scene

KIND = "DaemonSet"


def daemon_pods(scene: Scene) -> Iterator[Object]:
    """Yields the pods of all wanted DaemonSets, the pods that they have in the cluster included."""
    sets = scene.wanted.get(KIND, ())
    if not sets:
        return
    there = _there(scene, {key_of(each) for each in sets})
    for daemon_set in sets:
        requirements = Requirements(daemon_set)
        for node in scene.of("Node"):
            name = key_of(node)[1]
            if known := there.get((key_of(daemon_set), name)):
                yield known
            elif requirements.place(node).runs:
                yield _pod(daemon_set, name)


def _there(scene: Scene, sets: set[Key]) -> dict[tuple[Key, str], Object]:
    """Returns the pods of these DaemonSets in the cluster, by DaemonSet and node."""
    found = {}
    for pod in scene.cluster.get("Pod", ()):
        owner = controller_of(pod)
        if owner is not None and owner.get("kind") == KIND and is_active(pod):
            key = key_of(pod)[0], str(owner.get("name"))
            if key in sets:
                found[key, template.target(pod)] = pod
    return found


def _pod(daemon_set: Object, node: str) -> Object:
    made = template.pod(daemon_set, node, "planned")
    namespace, name = key_of(daemon_set)[0], f"{key_of(daemon_set)[1]}-{node}"
    metadata = {
        member: value for member, value in made["metadata"].items() if member not in ("generateName", "finalizers")
    }
    metadata |= {"name": name, "namespace": namespace, "uid": f"planned/{namespace}/{name}", "labels": labels_of(made)}
    metadata["creationTimestamp"] = daemon_set["metadata"].get("creationTimestamp")
    return {**made, "metadata": metadata, "status": {"phase": "Pending"}}
