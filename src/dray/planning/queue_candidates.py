"""Changes of queues that may help: another queue, and more quota."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Final

from dray.api.objects import Object, key_of, labels_of, mapping, mappings, spec_of, text
from dray.planning.changes import Change, Steps, set_quota
from dray.planning.playing import PlacedPod
from dray.planning.scene import Scene
from dray.scheduling.cluster.extended import IMPLICIT
from dray.scheduling.quota.kai import queue as kai_queue
from dray.scheduling.quota.kueue.kinds import QUEUE_LABEL

_KAI_GROUP: Final = "PodGroup.scheduling.run.ai"
_MOST: Final = 128
"""The largest amount of quota that is tried on top of what there is, in the unit of the resource."""
_KUEUE_UNITS: Final = {"memory": "Gi", "ephemeral-storage": "Gi"}
_KAI_FACTORS: Final = {"cpu": 1000, "memory": 1000}
"""KAI counts thousandths of a cpu, and megabytes."""


def other_queues(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields the queues that waiting pods could name instead of theirs, those with similar names first."""
    for pod in waiting[:1]:
        labels = labels_of(pod.document)
        if used := labels.get(QUEUE_LABEL):
            local = [key_of(each)[1] for each in scene.of("LocalQueue") if key_of(each)[0] == pod.key[0]]
            yield from _others(local, used, partial(_in_queue, QUEUE_LABEL))
        if used := labels.get(kai_queue.QUEUE_LABEL) or _queue_of_group(scene, pod):
            parents = {text(spec_of(each).get("parentQueue")) for each in scene.of(kai_queue.KIND)}
            leaves = [key_of(each)[1] for each in scene.of(kai_queue.KIND) if key_of(each)[1] not in parents]
            yield from _others(leaves, used, partial(_in_queue, kai_queue.QUEUE_LABEL))


def _others(names: Sequence[str], used: str, make: Callable[[str, str], Change]) -> Iterator[Change]:
    for name in sorted(names, key=lambda each: -SequenceMatcher(None, each, used).ratio()):
        if name != used:
            yield make(name, used)


def _queue_of_group(scene: Scene, pod: PlacedPod) -> str:
    """Returns the queue that the PodGroup of KAI of the pod names."""
    for group in scene.wanted.get(_KAI_GROUP, ()):
        if pod.group is not None and key_of(group) == (pod.group.namespace, pod.group.name):
            return text(spec_of(group).get("queue"))
    return ""


def _in_queue(label: str, name: str, used: str) -> Change:
    def apply(scene: Scene) -> Scene:
        pods = [_labelled(each, label, name, used) for each in scene.wanted.get("Pod", ())]
        jobs = [_labelled(each, label, name, used) for each in scene.wanted.get("Job", ())]
        groups = [_labelled(_named(each, name, used), label, name, used) for each in scene.wanted.get(_KAI_GROUP, ())]
        changed = {"Pod": pods, "Job": jobs, _KAI_GROUP: groups}
        return scene.with_wanted(**{kind: found for kind, found in changed.items() if found})

    return Change("OtherQueue", f"use queue {name} instead of {used}", apply)


def _labelled(obj: Object, label: str, name: str, used: str) -> Object:
    labels = labels_of(obj)
    if labels.get(label) != used:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "labels": {**labels, label: name}}}


def _named(group: Object, name: str, used: str) -> Object:
    spec = spec_of(group)
    return {**group, "spec": {**spec, "queue": name}} if spec.get("queue") == used else group


def further_quota(scene: Scene, waiting: Sequence[PlacedPod]) -> Iterator[Change]:
    """Yields more quota in the queues of waiting pods, first of resources that the reasons of the pods name."""
    reasons = " ".join({pod.reason for pod in waiting})
    found = dict.fromkeys(quota for pod in waiting for quota in _quotas(scene, pod))
    for queue, flavor, resource, unit, factor in sorted(found, key=lambda each: not _is_named(each[2], reasons)):

        def more(
            amount: int,
            queue: str = queue,
            flavor: str = flavor,
            resource: str = resource,
            unit: str = unit,
            factor: int = factor,
        ) -> Change:
            return set_quota(queue, resource, f"+{amount * factor}{unit}", flavor)

        yield from Steps(range(1, _MOST + 1), more).doubling()


def _is_named(resource: str, reasons: str) -> bool:
    return resource.removeprefix(IMPLICIT) in reasons


def _quotas(scene: Scene, pod: PlacedPod) -> Iterator[tuple[str, str, str, str, int]]:
    """Yields the quotas that limit a pod: queue, flavor, resource, unit, and the amount that is one step."""
    labels = labels_of(pod.document)
    local = pod.key[0], labels.get(QUEUE_LABEL)
    names = {text(spec_of(each).get("clusterQueue")) for each in scene.of("LocalQueue") if key_of(each) == local}
    for queue in scene.of("ClusterQueue"):
        if key_of(queue)[1] in names:
            yield from _kueue_quotas(queue)
    used = labels.get(kai_queue.QUEUE_LABEL) or _queue_of_group(scene, pod)
    for queue in scene.of(kai_queue.KIND):
        if used and key_of(queue)[1] in (used, _parent(scene, used)):
            limited = mapping(spec_of(queue).get("resources"))
            for name in kai_queue.RESOURCES:
                if mapping(limited.get(name)).get("quota") != -1:
                    yield key_of(queue)[1], "", name, "", _KAI_FACTORS.get(name, 1)


def _parent(scene: Scene, queue: str) -> str:
    return next(
        (text(spec_of(each).get("parentQueue")) for each in scene.of(kai_queue.KIND) if key_of(each)[1] == queue), ""
    )


def _kueue_quotas(queue: Object) -> Iterator[tuple[str, str, str, str, int]]:
    for group in mappings(spec_of(queue).get("resourceGroups")):
        flavors = [text(each.get("name")) for each in mappings(group.get("flavors"))]
        for resource in map(text, group.get("coveredResources") or ()):
            for flavor in flavors:
                # With a single flavor its name says nothing.
                yield key_of(queue)[1], flavor if len(flavors) > 1 else "", resource, _unit(resource), 1


def _unit(resource: str) -> str:
    dimension, dot, _ = resource.partition(f".{IMPLICIT}")
    return _KUEUE_UNITS.get(dimension if dot else resource, "")
