"""What the rejections of all nodes come to: one value that concludes. `text` renders it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dray.allocation import reasons as r
from dray.allocation.nearness import Choice, best, choices, distance, missing, stage
from dray.allocation.usage import ClaimKey


@dataclass(frozen=True)
class Freeing:
    """Claims whose release would make room on a node."""

    node: str
    claims: tuple[ClaimKey, ...]


@dataclass(frozen=True)
class Conclusion:
    """Base of all conclusions."""


@dataclass(frozen=True)
class Unjudged(Conclusion):
    """At least one node could not be judged: an expression failed, a class is missing, or the search gave up."""

    message: str


@dataclass(frozen=True)
class NoneTogether(Conclusion):
    """Each request is served by some node, but no node serves all."""

    requests: tuple[str, ...]
    free: Freeing | None = None


@dataclass(frozen=True)
class DriverAbsent(Conclusion):
    """No ResourceSlice of the requested driver exists."""

    driver: str
    device_class: str


@dataclass(frozen=True)
class NothingSuitable(Conclusion):
    """No node has a suitable device, free or not. `nearest` is the nearest miss."""

    request: str
    nearest: r.NearestMiss | None
    device_class: str = ""
    node: str = ""
    """Name of the node if only one was asked, else ""."""


@dataclass(frozen=True)
class Apart(Conclusion):
    """A node has enough devices, but no combination satisfies all requests."""

    node: str
    conflict: r.Conflict | None
    free: Freeing | None = None


@dataclass(frozen=True)
class Short(Conclusion):
    """The nearest node lacks devices for some requests."""

    nearest: r.Rejection
    missing: int
    nodes: int
    """Number of nodes that were asked."""
    alike: int
    """Number of nodes that lack the same amount, including this one."""
    free: Freeing | None = None


def conclude(rejections: Sequence[r.Rejection]) -> Conclusion | None:
    """Draws one conclusion from the rejections of all nodes; None if there are none."""
    for rejection in rejections:
        if rejection.kind is r.RejectionKind.FAULT:
            return Unjudged(rejection.message)
    judged = sorted((rejection for rejection in rejections if rejection.requests), key=distance)
    if not judged:
        return Unjudged(rejections[0].message) if rejections else None
    if (absent := absent_driver(judged[0])) is not None:
        return absent
    nearest, free = judged[0], _freeing(judged)
    lacking = [{choice for choice, found in choices(rejection).items() if missing(best(found))} for rejection in judged]
    if not lacking[0]:
        return Apart(nearest.node, nearest.conflicts[0] if nearest.conflicts else None, free)
    everywhere = set.intersection(*lacking)
    if not everywhere:
        some = set.union(*lacking)
        return NoneTogether(
            tuple(_names(nearest, [lacking_choice for lacking_choice in choices(nearest) if lacking_choice in some])),
            free,
        )
    for choice in choices(nearest):
        if choice in everywhere and not any(_suitable(rejection, choice) for rejection in judged):
            first, node = choices(nearest)[choice][0], nearest.node if len(judged) == 1 else ""
            name, near = _names(nearest, [choice])[0], _nearest_device(judged, choice)
            return NothingSuitable(name, near, first.device_class, node)
    alike = sum(distance(rejection) == distance(nearest) for rejection in judged)
    return Short(nearest, distance(nearest)[1], len(judged), alike, free)


def absent_driver(rejection: r.Rejection) -> DriverAbsent | None:
    """Returns the first driver that a request needs in every alternative and that has no slices."""
    for alternatives in choices(rejection).values():
        if all(alternative.driver_absent for alternative in alternatives):
            return DriverAbsent(alternatives[0].driver, alternatives[0].device_class)
    return None


def _freeing(judged: Sequence[r.Rejection]) -> Freeing | None:
    """Returns the smallest set of claims on any node whose release would help."""
    found = [Freeing(rejection.node, rejection.to_free) for rejection in judged if rejection.to_free]
    return min(found, key=lambda each: len(each.claims), default=None)


def _names(rejection: r.Rejection, wanted: Sequence[Choice]) -> list[str]:
    """Names the requests, with their claims if there are several claims."""
    several = len({claim for claim, _ in choices(rejection)}) > 1
    return [f"{claim[1]}/{request}" if several else request for claim, request in wanted]


def _suitable(rejection: r.Rejection, choice: Choice) -> bool:
    """Whether the node has a device for the request, be it in use or otherwise out of reach at present."""
    for reasons in choices(rejection).get(choice, ()):
        if reasons.available or any(_passing(fallen.cause) for fallen in reasons.fallen):
            return True
    return bool(rejection.pools)


def _passing(cause: r.Cause) -> bool:
    return isinstance(cause, r.Tainted | r.GroupsIncompatible | r.CounterShort | r.InUse | r.CapacityUsed)


def _nearest_device(judged: Sequence[r.Rejection], choice: Choice) -> r.NearestMiss | None:
    found = [
        reasons.nearest
        for rejection in judged
        for reasons in choices(rejection).get(choice, ())
        if reasons.nearest is not None
    ]
    return max(found, key=lambda each: stage(each.cause), default=None)
