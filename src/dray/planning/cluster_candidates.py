"""Changes around the manifests that may help: another queue, more quota, a claim or pod that ends, more machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from dray.api.objects import Key, Object, key_of, labels_of, mapping, mappings, spec_of, status_of, text
from dray.api.pods import is_terminal, node_of
from dray.api.resource_claims import reserved_for, results_of
from dray.planning.changes import Change, set_quota
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL

_TYPE: Final = "node.kubernetes.io/instance-type"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_FREED: Final = 12
_MACHINES: Final = (1, 2, 4, 8)
_MORE: Final = (1, 2, 4, 8, 16, 32, 64, 128)
"""Amounts of quota that are tried on top of what there is."""


def other_queues(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields the LocalQueues of the namespaces of waiting pods that are in another one."""
    for pod in waiting[:1]:
        used = labels_of(pod.document).get(QUEUE_LABEL)
        for each in scene.of("LocalQueue") if used else ():
            namespace, name = key_of(each)
            if namespace == pod.key[0] and name != used:
                yield _in_queue(name, str(used))


def _in_queue(name: str, used: str) -> Change:
    def apply(scene: Scene) -> Scene:
        return scene.with_wanted(Pod=[_labelled(each, name, used) for each in scene.wanted.get("Pod", ())])

    return Change("OtherQueue", f"use queue {name} instead of {used}", apply)


def _labelled(pod: Object, name: str, used: str) -> Object:
    labels = labels_of(pod)
    if labels.get(QUEUE_LABEL) != used:
        return pod
    return {**pod, "metadata": {**pod["metadata"], "labels": {**labels, QUEUE_LABEL: name}}}


def further_quota(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields more quota in the queues of waiting pods, for each resource, from little to much."""
    names = dict.fromkeys(name for pod in waiting for name in _queues_of(scene, pod))
    for more in _MORE:
        for name in names:
            for resource in _resources(scene, name):
                yield set_quota(name, resource, f"+{more}")


def _queues_of(scene: Scene, pod: PlacedPod) -> list[str]:
    labels = labels_of(pod.document)
    used, kai = labels.get(QUEUE_LABEL), labels.get(kai_queue.QUEUE_LABEL)
    found = [
        text(spec_of(each).get("clusterQueue")) for each in scene.of("LocalQueue") if key_of(each) == (pod.key[0], used)
    ]
    return [*found, *([kai] if kai else [])]


def _resources(scene: Scene, queue: str) -> list[str]:
    for each in scene.of("ClusterQueue"):
        if key_of(each)[1] == queue:
            groups = mappings(spec_of(each).get("resourceGroups"))
            return [text(name) for group in groups for name in group.get("coveredResources") or ()]
    return [kai_queue.GPU] if any(key_of(each)[1] == queue for each in scene.of(kai_queue.KIND)) else []


def freed_pods(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields pods that could end, those with the lowest priority and the fewest devices first."""
    if not waiting:
        return
    devices: dict[str, int] = {}
    for claim in scene.cluster.get("ResourceClaim", ()):
        number = len(results_of(claim))
        for user in reserved_for(claim) if number else ():
            devices[user.get("uid", "")] = devices.get(user.get("uid", ""), 0) + number
    running = [each for each in scene.cluster.get("Pod", ()) if node_of(each) and not is_terminal(each)]
    with_devices = [each for each in running if each["metadata"].get("uid") in devices] or running

    def size(pod: Object) -> tuple[int, int, tuple[str, str]]:
        return spec_of(pod).get("priority") or 0, devices.get(pod["metadata"].get("uid", ""), 0), key_of(pod)

    for pod in sorted(with_devices, key=size)[:_MOST_FREED]:
        yield _freed(pod)


def freed_claims(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields claims that hold devices and that no pod uses, those with the fewest devices first."""
    unused = [each for each in scene.cluster.get("ResourceClaim", ()) if results_of(each) and not reserved_for(each)]
    for claim in (
        sorted(unused, key=lambda each: (len(results_of(each)), key_of(each)))[:_MOST_FREED] if waiting else ()
    ):
        yield _deleted(key_of(claim))


def _deleted(key: Key) -> Change:
    def apply(scene: Scene) -> Scene:
        left = [each for each in scene.cluster["ResourceClaim"] if key_of(each) != key]
        return scene.with_cluster(ResourceClaim=left)

    return Change("FreeClaim", f"delete claim {'/'.join(key)}, which no pod uses", apply)


def _freed(pod: Object) -> Change:
    key, uid = key_of(pod), pod["metadata"].get("uid")

    def apply(scene: Scene) -> Scene:
        pods = [each for each in scene.cluster["Pod"] if key_of(each) != key]
        claims = [_released(each, str(uid)) for each in scene.cluster.get("ResourceClaim", ())]
        return scene.with_cluster(Pod=pods, ResourceClaim=claims)

    return Change("FreePod", f"end pod {'/'.join(key)} on node {node_of(pod)}", apply)


def _released(claim: Object, uid: str) -> Object:
    users = reserved_for(claim)
    left = [each for each in users if each.get("uid") != uid]
    if len(left) == len(users):
        return claim
    status = {**mapping(claim.get("status")), "reservedFor": left} if left else {}
    return {**claim, "status": status}


def further_machines(scene: Scene) -> Iterator[Change]:
    """Yields more machines of each kind that the cluster has, as its nodes of the kind are: one, then several."""
    devices: Counter[tuple[str, str]] = Counter()
    for each in scene.of("ResourceSlice"):
        spec = spec_of(each)
        devices[str(spec.get("nodeName")), str(spec.get("driver"))] += len(mappings(spec.get("devices")))
    examples: dict[object, Object] = {}
    drivers = sorted({driver for _, driver in devices})
    for node in scene.of("Node"):
        name = key_of(node)[1]
        counts = tuple(devices[name, driver] for driver in drivers)
        kind = labels_of(node).get(_TYPE), repr(status_of(node).get("allocatable")), counts
        known = examples.get(kind)
        if known is None or (_is_unusable(known) and not _is_unusable(node)):
            examples[kind] = node
    for count in _MACHINES:
        for node in examples.values():
            yield _more_machines(count, node)


def _is_unusable(node: Object) -> bool:
    return bool(spec_of(node).get("unschedulable") or spec_of(node).get("taints"))


def _more_machines(count: int, node: Object) -> Change:
    old = key_of(node)[1]
    named = str(labels_of(node).get(_TYPE) or f"{'machine' if count == 1 else 'machines'} like node {old}")

    def apply(scene: Scene) -> Scene:
        slices = [each for each in scene.of("ResourceSlice") if spec_of(each).get("nodeName") == old]
        names = [f"{old}-added-{number}" for number in range(count)]
        return scene.with_cluster(
            Node=[*scene.cluster.get("Node", ()), *(_twin(node, name) for name in names)],
            ResourceSlice=[
                *scene.cluster.get("ResourceSlice", ()),
                *(_renamed(each, name) for name in names for each in slices),
            ],
        )

    return Change("AddMachines", f"add {count} {named}", apply, (named,) * count)


def _twin(node: Object, name: str) -> Object:
    """Returns a node of another name that is otherwise the same, and takes pods."""
    spec = {member: value for member, value in spec_of(node).items() if member != "unschedulable"}
    labels = {**labels_of(node), **({_HOSTNAME: name} if _HOSTNAME in labels_of(node) else {})}
    metadata = {**node["metadata"], "name": name, "uid": f"node/{name}", "labels": labels}
    return {**node, "metadata": metadata, "spec": spec}


def _renamed(slice_: Object, node: str) -> Object:
    """Returns the slice of another node; a pool that is named after its node gets the new name."""
    spec = spec_of(slice_)
    pool = {**mapping(spec.get("pool")), "name": node}
    name = f"{slice_['metadata']['name']}-{node}"
    metadata = {"name": name, "uid": name}
    return {**slice_, "metadata": metadata, "spec": {**spec, "nodeName": node, "pool": pool}}
