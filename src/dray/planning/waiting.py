"""Pods that wait in queues: their order, their groups, and the place of each."""

from __future__ import annotations

from dray.api.objects import Key
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Scheduler


def group_of(scheduler: Scheduler, pod: Pod) -> GroupKey | None:
    """Returns the group that the pod is placed with: the root of the tree of its group."""
    groups = scheduler.state.groups
    group = groups.of(pod)
    root = groups.root(group) if group is not None else None
    return root.key if isinstance(root, Group) else pod.group


def positions(scheduler: Scheduler) -> dict[str, tuple[str, int]]:
    """Returns the queue of each waiting pod and its place there from 1, by uid; pods of a group have the same place."""
    found: dict[str, tuple[str, int]] = {}
    for (_, queue), pods in waiting_pods(scheduler).items():
        places: dict[object, int] = {}
        for pod in pods:
            place = places.setdefault(group_of(scheduler, pod) or pod.uid, len(places) + 1)
            found[pod.uid] = queue, place
    return found


def waiting_pods(scheduler: Scheduler) -> dict[tuple[str, str], list[Pod]]:
    """Returns the pods that wait in queues, in the order in which they are tried, by label of the system and queue."""
    found: dict[tuple[str, str], list[tuple[tuple[int, str, Key], Pod]]] = {}
    for each in scheduler.queue.all():
        member = scheduler.state.queues.member(each.pod)
        if member is not None:
            order = (-member.priority, each.pod.created, each.pod.key)
            found.setdefault((member.policy.label, member.queue), []).append((order, each.pod))
    return {key: [pod for _, pod in sorted(pods, key=lambda each: each[0])] for key, pods in found.items()}
