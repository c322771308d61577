"""Rejections that say the same of different nodes, put together.

Who uses the devices, and what the devices and pools are called, makes no difference; how many there are, and what they
fell to, does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from dray.allocation import reasons as r
from dray.allocation.nearness import distance


def alike(rejections: Iterable[r.Rejection]) -> list[list[r.Rejection]]:
    """The groups, the nearest first; within a group the order is kept."""
    groups: dict[Hashable, list[r.Rejection]] = {}
    for each in rejections:
        groups.setdefault(_likeness(each), []).append(each)
    return sorted(groups.values(), key=lambda group: distance(group[0]))


def _likeness(rejection: r.Rejection) -> Hashable:
    # A message that cannot be put into other words names the node or its devices.
    message = "" if rejection.requests else rejection.message
    return (
        rejection.kind,
        message,
        tuple(map(_request, rejection.requests)),
        tuple(map(_conflict, rejection.conflicts)),
        tuple(sorted((pool.state, pool.problem) for pool in rejection.pools)),
        len(rejection.to_free or ()),
    )


def _request(each: r.RequestReasons) -> Hashable:
    fallen: Counter[Hashable] = Counter()
    for one in each.fallen:
        fallen[_cause(one.cause)] += len(one.devices)
    return each.claim, each.request, each.need, each.every, len(each.available), frozenset(fallen.items())


def _cause(cause: r.Cause) -> Hashable:
    if isinstance(cause, r.InUse):
        return r.InUse
    if isinstance(cause, r.CapacityUsed):
        return r.CapacityUsed, cause.name, cause.wanted, cause.left
    return cause


def _conflict(conflict: r.Conflict) -> Hashable:
    if isinstance(conflict, r.NoCommonValue):
        return conflict.attribute, conflict.need, tuple(sorted(number for _, number in conflict.values))
    return conflict
