"""Fewer pods that may help: as many as have a node, or a smaller gang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from dray.api.objects import Key, Object, annotations_of, key_of, mapping, spec_of
from dray.planning.changes import Change, Steps
from dray.planning.playing import Played
from dray.planning.scene import Scene
from dray.scheduling.groups import jobs, kai, kueue
from dray.scheduling.model.group import GroupKey


def fewer_pods(scene: Scene, played: Played) -> Iterator[Change]:
    """Yields fewer pods of what does not fit: as many as have a node, or a smaller gang."""
    waiting = [pod for pod in played.pods if not pod.node]
    placed = len(played.pods) - len(waiting)
    if waiting and placed and not any(pod.group for pod in waiting):
        names = {pod.key for pod in waiting}
        text = f"start {placed} instead of {len(played.pods)} pods"
        yield Change("FewerPods", text, lambda scene: _only(scene, lambda pod: key_of(pod) not in names))
    for group in dict.fromkeys(pod.group for pod in waiting if pod.group is not None):
        members = [pod.key for pod in played.pods if pod.group == group]
        yield from Steps(range(len(members) - 1, 0, -1), partial(_of_members, group, members)).doubling()


def _of_members(group: GroupKey, members: Sequence[Key], number: int) -> Change:
    text = f"start {number} instead of {len(members)} pods in group {group.title}"
    return Change("FewerPods", text, _smaller(members, (group.namespace, group.name), number))


def _only(scene: Scene, keeps: Callable[[Object], bool]) -> Scene:
    return scene.with_wanted(Pod=[each for each in scene.wanted.get("Pod", ()) if keeps(each)])


def _smaller(members: Sequence[Key], group: Key, number: int) -> Callable[[Scene], Scene]:
    """Drops some pods of a group, and lowers its minimum to the number of pods that are left."""
    kept, dropped = set(members[:number]), set(members[number:])

    def apply(scene: Scene) -> Scene:
        scene = _only(scene, lambda pod: key_of(pod) not in dropped)
        pods = [_counting(each, number) if key_of(each) in kept else each for each in scene.wanted.get("Pod", ())]
        scene = scene.with_wanted(Pod=pods)
        kinds = [kind for kind in scene.wanted if kind.startswith("PodGroup") or kind == jobs.KIND]
        changed = {
            kind: [_lowered(each, number) if key_of(each) == group else each for each in scene.wanted[kind]]
            for kind in kinds
        }
        return replace(scene, wanted={**scene.wanted, **changed})

    return apply


def _lowered(group: Object, number: int) -> Object:
    spec = spec_of(group)
    if group.get("kind") == jobs.KIND:
        return _smaller_job(group, number)
    if "minMember" in spec:
        return {**group, "spec": {**spec, "minMember": min(spec["minMember"], number)}}
    policy = mapping(spec.get("schedulingPolicy"))
    gang = mapping(policy.get("gang"))
    if not gang:
        return group
    lower = {**gang, "minCount": min(gang.get("minCount", number), number)}
    return {**group, "spec": {**spec, "schedulingPolicy": {**policy, "gang": lower}}}


def _smaller_job(job: Object, number: int) -> Object:
    """Returns a Job that is a group, with fewer pods at a time."""
    annotations = annotations_of(job)
    if kai.MIN_MEMBER in annotations:
        annotations = {**annotations, kai.MIN_MEMBER: str(number)}
    metadata = {**job["metadata"], "annotations": annotations}
    return {**job, "metadata": metadata, "spec": {**spec_of(job), "parallelism": number}}


def _counting(pod: Object, number: int) -> Object:
    """Returns the pod of a group of Kueue with another number of pods; other pods as they are."""
    annotations = annotations_of(pod)
    if kueue.COUNT not in annotations:
        return pod
    return {**pod, "metadata": {**pod["metadata"], "annotations": {**annotations, kueue.COUNT: str(number)}}}
