"""The order in which a controller removes pods that are too many.

First go those that are lost least: unplaced, pending, unready ones, then those that their owner marked as cheap, those
on nodes that have many, and those that were ready, or made, most recently.
"""

from __future__ import annotations

from datetime import datetime
from math import log2
from typing import Any, Final

from dray.api.objects import Object, annotations_of, condition_of, int64, uid_of
from dray.api.pods import node_of, phase_of, restarts
from dray.client.clock import moment

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS: Final = 1e9
_LARGEST_COST: Final = 2**31


def deletion_cost(pod: Object) -> int:
    """Returns the pod-deletion-cost annotation; 0 if it is missing or no 32-bit number."""
    cost = int64(annotations_of(pod).get(DELETION_COST, "")) or 0
    return cost if -_LARGEST_COST <= cost < _LARGEST_COST else 0


def removal_order(pod: Object) -> tuple[Any, ...]:
    """Sort key of pods to remove: unbound, pending, not ready, most recently ready, restarted, youngest first."""
    state, ready = _state(pod)
    return *state, _later_first(ready), -restarts(pod), _later_first(pod["metadata"].get("creationTimestamp"))


def ranked_order(pod: Object, neighbours: int, now: datetime) -> tuple[Any, ...]:
    """Sort key like `removal_order` with deletion cost and the number of related pods on the same node.

    Ages are compared in powers of two, so that pods of similar age count as equal: a roll-out then does not leave the
    oldest pods together on one node.
    """
    state, ready = _state(pod)
    created = pod["metadata"].get("creationTimestamp")
    cost = deletion_cost(pod)
    return *state, cost, -neighbours, _age(ready, now), -restarts(pod), _age(created, now), uid_of(pod)


def _state(pod: Object) -> tuple[tuple[bool, int, bool], str | None]:
    """Returns the leading parts of the sort key (bound, phase, ready) and since when the pod is ready."""
    condition = condition_of(pod, "Ready", "True")
    state = bool(node_of(pod)), _PHASES.get(phase_of(pod), 0), condition is not None
    return state, condition.get("lastTransitionTime") if condition is not None else None


def _later_first(text: str | None) -> float:
    return -moment(text).timestamp() if text else 0.0


def _age(text: str | None, now: datetime) -> int:
    if not text:
        return -1
    seconds = (now - moment(text)).total_seconds()
    return int(log2(seconds * _NANOSECONDS)) if seconds * _NANOSECONDS >= 1 else -1
