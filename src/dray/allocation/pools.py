"""Pools as one node sees them: which slices count, and whether they are complete and make sense.

Only slices that target the node decide its generation. Where they are not all of the pool, the whole cluster is
asked: a newer generation anywhere makes the pool obsolete, and slices that target other nodes still complete it and
carry counters. Pools with binding conditions come last, otherwise the order is driver, then name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from dray.allocation import counters
from dray.allocation.slices import PoolKey, Slice
from dray.api.gates import FeatureGates


class PoolState(Enum):
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Pool:
    driver: str
    name: str
    state: PoolState
    slices: tuple[Slice, ...] = ()
    """The slices with devices that target the node, by name."""
    members: tuple[Slice, ...] = ()
    """Every slice of a complete pool, for any node; the pool's counters are made of them."""
    problem: str = ""

    @property
    def title(self) -> str:
        return f"{self.driver}/{self.name}"


def gather(
    targeting: Iterable[Slice], everywhere: Mapping[PoolKey, Sequence[Slice]], gates: FeatureGates
) -> list[Pool]:
    """Returns the pools from the slices that target the node, in search order."""
    newest: dict[PoolKey, list[Slice]] = {}
    for slice_ in targeting:
        known = newest.get(slice_.key)
        if known is None or slice_.generation > known[0].generation:
            newest[slice_.key] = [slice_]
        elif slice_.generation == known[0].generation:
            known.append(slice_)
    ordinary: list[Pool] = []
    conditional: list[Pool] = []
    for key in sorted(newest, key=_bytewise):
        pool = _pool(key, newest[key], everywhere[key], gates)
        if pool is not None:
            waits = any(slice_.has_conditions for slice_ in pool.slices)
            (conditional if waits else ordinary).append(pool)
    return ordinary + conditional


def _bytewise(key: PoolKey) -> tuple[bytes, bytes]:
    return key[0].encode(), key[1].encode()


def _pool(key: PoolKey, own: list[Slice], everywhere: Sequence[Slice], gates: FeatureGates) -> Pool | None:
    """Returns the pool; None if a newer generation is being published."""
    others: list[Slice] = []
    if len(own) != own[0].count:
        if any(slice_.generation > own[0].generation for slice_ in everywhere):
            return None
        same = [
            slice_
            for slice_ in everywhere
            if slice_.generation == own[0].generation
            and (gates["DRADeviceCompatibilityGroups"] or not slice_.has_groups)
        ]
        if len(same) != own[0].count:
            return Pool(*key, PoolState.INCOMPLETE, problem=f"{len(same)} of {own[0].count} slices")
        others = [slice_ for slice_ in same if slice_ not in own]
    for slices in (own, others):
        slices.sort(key=lambda slice_: slice_.name.encode())
    problem = _duplicate_device(own)
    if problem is None and gates["DRAPartitionableDevices"]:
        problem = counters.problem(own, others)
    if problem is not None:
        return Pool(*key, PoolState.INVALID, problem=problem)
    return Pool(*key, PoolState.COMPLETE, tuple(own), (*own, *others))


def _duplicate_device(slices: Iterable[Slice]) -> str | None:
    seen: set[str] = set()
    for slice_ in slices:
        for device in slice_.devices:
            if device.name in seen:
                return f"duplicate device name {device.name}"
            seen.add(device.name)
    return None
