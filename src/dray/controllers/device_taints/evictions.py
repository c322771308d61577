"""Evictions: when an allocated claim ends the pods that use it, and why.

A NoExecute taint of one of its devices does, from `timeAdded` on, unless the allocation result tolerates it. Only
tolerations that name the effect count: to tolerate every effect is about being allocated, not about staying. With
several taints the earliest moment counts and every taint is a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dray.allocation import taints
from dray.allocation.devices import DeviceID
from dray.api.objects import Object
from dray.api.resource_claims import results_of
from dray.api.times import after
from dray.client.clock import moment
from dray.controllers.device_taints.rules import NO_EXECUTE


class Reason(NamedTuple):
    """A taint that evicts; in order, rules come first by name, then the taints of slices."""

    published: bool
    """True for a taint in a ResourceSlice, False for a taint of a DeviceTaintRule."""
    rule: str
    """Name of the DeviceTaintRule; `uid` tells it from a later rule of the same name."""
    uid: str
    driver: str = ""
    pool: str = ""
    device: str = ""
    position: int = 0
    """Index of the taint in the device's list."""


@dataclass(frozen=True, slots=True)
class Eviction:
    when: datetime
    reasons: tuple[Reason, ...]

    @property
    def rules(self) -> set[str]:
        return {reason.rule for reason in self.reasons if not reason.published}


TaintsOf = Callable[[DeviceID], Iterable[tuple[Reason, Object]]]
"""A function that returns the NoExecute taints of a device, from slices and rules."""


def by_rule(rule: Object) -> Reason:
    metadata = rule["metadata"]
    return Reason(False, metadata["name"], metadata.get("uid") or "")


def by_slice(device: DeviceID, position: int) -> Reason:
    return Reason(True, "", "", *device, position)


def claim_eviction(claim: Object, taints_of: TaintsOf) -> Eviction | None:
    found: dict[Reason, datetime] = {}
    for result in results_of(claim):
        tolerations = result.get("tolerations") or ()
        for reason, taint in taints_of((result["driver"], result["pool"], result["device"])):
            when = _when(taint, tolerations)
            if when is not None:
                found[reason] = min(when, found.get(reason, when))
    return Eviction(min(found.values()), tuple(sorted(found))) if found else None


def merged(evictions: Iterable[Eviction]) -> Eviction | None:
    """Merges evictions into one: the earliest time and all reasons. None if there are none."""
    every = list(evictions)
    if not every:
        return None
    reasons = {reason for eviction in every for reason in eviction.reasons}
    return Eviction(min(eviction.when for eviction in every), tuple(sorted(reasons)))


def _when(taint: Object, tolerations: Iterable[Object]) -> datetime | None:
    """Returns when a taint evicts; None if it is tolerated forever or has no `timeAdded`."""
    added = taint.get("timeAdded")
    if not added:
        return None
    seconds = []
    for toleration in tolerations:
        if toleration.get("effect") == NO_EXECUTE and taints.tolerated(taint, [toleration]):
            if toleration.get("tolerationSeconds") is None:
                return None
            seconds.append(max(0, toleration["tolerationSeconds"]))
    return after(moment(added), min(seconds, default=0))
