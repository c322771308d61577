"""How near a node came to serving claims: what is missing there, as values that can be compared.

Fewer devices missing is nearer. Among nodes that miss as many, the one whose devices came furthest through the checks
is nearer: a device in use is nearer than one that is too small, and that nearer than one that no selector takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    """How far a device got that fell to the cause."""
    if isinstance(cause, r.NotSelected):
        return ORDER.index(r.NotSelected), cause.source == "request", cause.number
    return ORDER.index(type(cause)), False, 0


def choices(rejection: r.Rejection) -> dict[Choice, list[r.RequestReasons]]:
    """The requests of a rejection, each with its alternatives."""
    found: dict[Choice, list[r.RequestReasons]] = {}
    for each in rejection.requests:
        found.setdefault((each.claim, each.request.partition("/")[0]), []).append(each)
    return found


def missing(reasons: r.RequestReasons) -> int:
    """How many devices a request lacks."""
    if reasons.suffices:
        return 0
    return max(1, reasons.need - len(reasons.available))


def best(alternatives: Sequence[r.RequestReasons]) -> r.RequestReasons:
    """The reasons that lacks least; the first of those that lack as much."""
    return min(alternatives, key=lambda each: (missing(each), [-n for n in _furthest(each)]))


def distance(rejection: r.Rejection) -> tuple[bool, int, list[int]]:
    """Sorts rejections, the nearest first; those that say nothing about devices come last."""
    if rejection.kind in (r.RejectionKind.FAULT, r.RejectionKind.UNDECIDED):
        return True, 0, []
    lacking = [reasons for alternatives in choices(rejection).values() if missing(reasons := best(alternatives))]
    return False, sum(map(missing, lacking)), [-n for reasons in lacking for n in _furthest(reasons)]


def nearest(rejections: Iterable[r.Rejection]) -> r.Rejection | None:
    """The node where least is missing; the first of several."""
    return min(rejections, key=distance, default=None)


def _furthest(reasons: r.RequestReasons) -> Iterator[int]:
    """How far the devices got that came nearest to making up for what is missing."""
    reached = sorted((stage(each.cause) for each in reasons.fallen for _ in each.devices), reverse=True)
    for number in range(min(missing(reasons), _MOST_COMPARED)):
        if number >= len(reached):
            yield -1
        else:
            kind, by_request, selector = reached[number]
            yield kind * 100 + by_request * 50 + min(selector, 49)
