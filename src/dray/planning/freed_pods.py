"""Pods that could end, so that others have room.

Those with the lowest priority come first; among them those on nodes where the waiting pods lack the least. Pods that
hold devices are tried in turn with pods that hold none, which may take the cpu or memory that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

from dray.api.objects import Object, controller_of, key_of, labels_of, mapping, mappings, spec_of
from dray.api.pods import MIRROR_ANNOTATION, is_terminal, node_of
from dray.api.resource_claims import reserved_for, results_of
from dray.controllers.deployments.revisions import HASH
from dray.planning.changes import Change
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene

_MOST_FREED: Final = 12


def freed_pods(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    if not waiting:
        return
    held = _held(scene)
    selectors = [mapping(spec_of(pod.document).get("nodeSelector")) for pod in waiting]
    free = _free_devices(scene)
    for node in scene.of("Node"):
        if not any(each.items() <= labels_of(node).items() for each in selectors):
            free[key_of(node)[1]] -= 1_000_000

    def order(pod: Object) -> tuple[Any, ...]:
        devices = held[pod["metadata"].get("uid", "")]
        return spec_of(pod).get("priority") or 0, -free[node_of(pod)], devices, key_of(pod)

    running = [each for each in scene.cluster.get("Pod", ()) if node_of(each) and not is_terminal(each)]
    running = sorted(filter(_may_end, running), key=order)
    holders = [each for each in running if held[each["metadata"].get("uid", "")]]
    others = [each for each in running if not held[each["metadata"].get("uid", "")]]
    for several in zip_longest(holders[:_MOST_FREED], others[:_MOST_FREED]):
        yield from (_freed(pod) for pod in several if pod is not None)


def _may_end(pod: Object) -> bool:
    """Returns False for pods that come back to the same node: those of DaemonSets, and static pods."""
    controller = controller_of(pod)
    is_static = MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or ())
    return not is_static and (controller is None or controller.get("kind") != "DaemonSet")


def _held(scene: Scene) -> Counter[str]:
    """Returns the number of devices of each pod, by uid."""
    found: Counter[str] = Counter()
    for claim in scene.cluster.get("ResourceClaim", ()):
        number = len(results_of(claim))
        for user in reserved_for(claim) if number else ():
            found[user.get("uid", "")] += number
    return found


def _free_devices(scene: Scene) -> Counter[str]:
    """Returns the number of devices of each node that no claim has."""
    found: Counter[str] = Counter()
    nodes = {}
    for each in scene.of("ResourceSlice"):
        spec = spec_of(each)
        if node := spec.get("nodeName"):
            found[str(node)] += len(mappings(spec.get("devices")))
            nodes[spec.get("driver"), mapping(spec.get("pool")).get("name")] = str(node)
    for claim in scene.cluster.get("ResourceClaim", ()):
        for result in results_of(claim):
            if node := nodes.get((result.get("driver"), result.get("pool"))):
                found[node] -= 1
    return found


def _freed(pod: Object) -> Change:
    key, uid = key_of(pod), pod["metadata"].get("uid")

    def apply(scene: Scene) -> Scene:
        pods = [each for each in scene.cluster["Pod"] if key_of(each) != key]
        claims = [_released(each, str(uid)) for each in scene.cluster.get("ResourceClaim", ())]
        return scene.with_cluster(Pod=pods, ResourceClaim=claims)

    return Change("FreePod", f"end pod {'/'.join(key)} on node {node_of(pod)}{_advice(pod)}", apply)


def _advice(pod: Object) -> str:
    """Says what keeps the controller of the pod from creating it again."""
    controller = controller_of(pod)
    if controller is None:
        return ""
    kind, name, ending = str(controller.get("kind")), str(controller.get("name")), f"-{labels_of(pod).get(HASH)}"
    if kind == "ReplicaSet" and name.endswith(ending):
        kind, name = "Deployment", name.removesuffix(ending)
    return f", and scale {kind} {name} down, or it comes back"


def _released(claim: Object, uid: str) -> Object:
    users = reserved_for(claim)
    left = [each for each in users if each.get("uid") != uid]
    if len(left) == len(users):
        return claim
    status = {**mapping(claim.get("status")), "reservedFor": left} if left else {}
    return {**claim, "status": status}
