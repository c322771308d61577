"""The plan for the pods of a StatefulSet: first all of them, then none too many, then the update.

OrderedReady does one thing at a time: a pod is made when those before it are available, deleted when those after it are
gone and those before it are available. Parallel does all at once. The update replaces pods from the highest ordinal
down to the partition, and waits where `maxUnavailable` pods are not available. Recreate comes before all else: while
there are old pods, whatever their state, they are deleted and nothing is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Object, is_deleting, labels_of
from dray.api.pods import is_terminal
from dray.controllers.stateful_sets import identity
from dray.controllers.stateful_sets.replicas import Replicas

_BURST: Final = 250


@dataclass(slots=True)
class Plan:
    create: list[int] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    ended: list[Object] = field(default_factory=list)
    """Pods in `delete` that have terminated; they are replaced."""
    label: list[tuple[Object, int]] = field(default_factory=list)
    """Pods that lack the labels of their ordinal."""


def plan(replicas: Replicas) -> Plan:
    found = Plan()
    if replicas.recreates and replicas.outdated:
        found.delete = [pod for pod in replicas.outdated if not is_deleting(pod)]
        return found
    if not _fill(replicas, found) or not _shrink(replicas, found):
        return found
    if replicas.rolling is not None:
        _update(replicas, found)
    return found


def _fill(replicas: Replicas, found: Plan) -> bool:
    """Whether what comes next may be done now."""
    ordered = replicas.is_ordered
    for number in replicas.wanted:
        pod = replicas.pods.get(number)
        if pod is None:
            found.create.append(number)
            if ordered:
                return False
            if len(found.create) >= _BURST:
                return False
            continue
        if is_terminal(pod) and not is_deleting(pod):
            found.delete.append(pod)
            found.ended.append(pod)
        elif not identity.labels(replicas.stateful_set, number).items() <= labels_of(pod).items():
            found.label.append((pod, number))
        if ordered and not replicas.is_healthy(pod):
            return False
    return True


def _shrink(replicas: Replicas, found: Plan) -> bool:
    unhealthy = [at for at, pod in replicas.pods.items() if not replicas.is_healthy(pod)]
    for number, pod in replicas.condemned:
        if is_deleting(pod):
            if replicas.is_ordered:
                return False
            continue
        # One that does not work holds up nobody but those after it.
        if replicas.is_ordered and not replicas.is_available(pod) and number != min(unhealthy):
            return False
        found.delete.append(pod)
        if replicas.is_ordered:
            return False
    return True


def _update(replicas: Replicas, found: Plan) -> None:
    wanted = replicas.wanted
    available = sum(replicas.is_healthy(pod) for at, pod in replicas.pods.items() if at in wanted)
    may_go = replicas.max_unavailable - (len(wanted) - available)
    leaving = {pod["metadata"]["name"] for pod in found.delete}
    for number in sorted((at for at in replicas.pods if at in wanted), reverse=True):
        pod = replicas.pods[number]
        if number < replicas.first_updated:
            return
        if replicas.is_updated(pod) or is_deleting(pod) or pod["metadata"]["name"] in leaving:
            continue
        if replicas.is_healthy(pod):
            if may_go <= 0:
                return
            may_go -= 1
        found.delete.append(pod)
