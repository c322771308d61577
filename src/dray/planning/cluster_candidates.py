"""Changes of the cluster that may help: a claim or pod that ends, and more machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from dray.api.objects import Key, Object, key_of, labels_of, mapping, mappings, spec_of, status_of
from dray.api.resource_claims import reserved_for, results_of
from dray.planning.changes import Change, Steps
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene

_TYPE: Final = "node.kubernetes.io/instance-type"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST_FREED: Final = 12
_MOST_MACHINES: Final = 32


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
    steps = [
        Steps(range(1, _MOST_MACHINES + 1), partial(_more_machines, node)).doubling() for node in examples.values()
    ]
    for several in zip_longest(*steps):
        yield from (change for change in several if change is not None)


def _is_unusable(node: Object) -> bool:
    return bool(spec_of(node).get("unschedulable") or spec_of(node).get("taints"))


def _more_machines(node: Object, count: int) -> Change:
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
