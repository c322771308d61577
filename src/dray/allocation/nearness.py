"""How near a node came to serving claims: what is missing there, as values that can be compared.

Fewer devices missing is nearer. Among nodes that miss as many, the one whose devices came furthest through the checks
is nearer: a device in use is nearer than one that is too small, and that nearer than one that no selector takes.

`alike` puts rejections together that say the same of different nodes. Who uses the devices, and what the devices and
pools are called, makes no difference; how many there are, and what they fell to, does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from dray.allocation import reasons as r
from dray.allocation.usage import ClaimKey

Choice = tuple[ClaimKey, str]
"""A claim and one of its requests, whose alternatives count as one."""

# A request may ask for any number of devices.
_MOST_COMPARED: Final = 64

# In the order of the checks; the later a device falls, the nearer it came.
ORDER: tuple[type[r.Cause], ...] = (
    r.NotSelected,
    r.SelectorFault,
    r.OtherNode,
    r.ConditionsOff,
    r.CapacityAbsent,
    r.CapacityTooSmall,
    r.OperationsNotSkippable,
    r.Tainted,
    r.AttributeAbsent,
    r.GroupsIncompatible,
    r.CounterShort,
    r.InUse,
    r.CapacityUsed,
)


def stage(cause: r.Cause) -> tuple[int, bool, int]:
    """Returns how far a device with this cause got; higher is nearer."""
    if isinstance(cause, r.NotSelected):
        return ORDER.index(r.NotSelected), cause.source == "request", cause.number
    return ORDER.index(type(cause)), False, 0


def choices(rejection: r.Rejection) -> dict[Choice, list[r.RequestReasons]]:
    """Groups a rejection's requests by request, with their alternatives."""
    found: dict[Choice, list[r.RequestReasons]] = {}
    for request in rejection.requests:
        found.setdefault((request.claim, request.request.partition("/")[0]), []).append(request)
    return found


def missing(reasons: r.RequestReasons) -> int:
    """Returns how many devices the request lacks."""
    if reasons.suffices:
        return 0
    return max(1, reasons.need - len(reasons.available))


def best(alternatives: Sequence[r.RequestReasons]) -> r.RequestReasons:
    """Returns the alternative that lacks the fewest devices; the first one if several do."""
    return min(alternatives, key=lambda each: (missing(each), [-n for n in _furthest(each)]))


def distance(rejection: r.Rejection) -> tuple[bool, int, list[int]]:
    """Sort key of rejections: nearest first; those without device reasons last."""
    if rejection.kind in (r.RejectionKind.FAULT, r.RejectionKind.UNDECIDED):
        return True, 0, []
    lacking = [reasons for alternatives in choices(rejection).values() if missing(reasons := best(alternatives))]
    return False, sum(map(missing, lacking)), [-n for reasons in lacking for n in _furthest(reasons)]


def nearest(rejections: Iterable[r.Rejection]) -> r.Rejection | None:
    """Returns the nearest rejection; the first one if several are equal."""
    return min(rejections, key=distance, default=None)


def _furthest(reasons: r.RequestReasons) -> Iterator[int]:
    """How far the devices got that came nearest to making up for what is missing."""
    reached = sorted((stage(fallen.cause) for fallen in reasons.fallen for _ in fallen.devices), reverse=True)
    for number in range(min(missing(reasons), _MOST_COMPARED)):
        if number >= len(reached):
            yield -1
        else:
            kind, by_request, selector = reached[number]
            yield kind * 100 + by_request * 50 + min(selector, 49)


def alike(rejections: Iterable[r.Rejection]) -> list[list[r.Rejection]]:
    """The groups, the nearest first; within a group the order is kept."""
    groups: dict[Hashable, list[r.Rejection]] = {}
    for rejection in rejections:
        groups.setdefault(_likeness(rejection), []).append(rejection)
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
