"""Fair shares: how much of a total each of several claimants may have.

`divide` is weighted max-min fairness in rounds: a claimant that wants less than its part gets what it wants, and the
others share the rest by weight. Before the rounds each claimant gets its quota, and the rest goes to the highest
priority first. Past usage lowers a weight. In whole units, parts are rounded down, and the rest goes to the claimants
with the largest fractions.

`dominant_share` is the share of a claimant with several resources: the largest of its shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final, TypeVar

UNLIMITED: Final = -1.0
# The tolerance for errors of floating point.
_TINY: Final = 1e-9
_OF_NOTHING: Final = 1e6
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claimant:
    request: float
    """The amount that the claimant could use, no more than its limit."""
    weight: float = 1.0
    quota: float = 0.0
    """The amount that the claimant gets before others get more than their quota; UNLIMITED: the whole total."""
    priority: int = 0
    usage: float = 0.0
    """Past usage, as a fraction of the capacity at that time."""


def divide(total: float, claimants: Sequence[Claimant], *, whole: bool = False, k: float = 1.0) -> list[float]:
    """Returns the share of each claimant. The first of several with equal fractions gets the last unit. `k` is the
    weight of past usage.

    Quotas are not scaled down: if their sum exceeds the total, so does the sum of the shares.
    """
    shares = [min(total if claimant.quota < 0 else claimant.quota, claimant.request) for claimant in claimants]
    left = total - sum(shares)
    buckets: dict[int, list[int]] = {}
    for index, claimant in enumerate(claimants):
        buckets.setdefault(claimant.priority, []).append(index)
    fractions: dict[int, dict[int, float]] = {}
    for priority in sorted(buckets, reverse=True):
        if left <= _TINY:
            return shares
        left, fractions[priority] = _fill(left, claimants, buckets[priority], shares, whole=whole, k=k)
    for priority in sorted(fractions, reverse=True):
        for index in sorted(fractions[priority], key=lambda index: (-fractions[priority][index], index)):
            unit = min(1.0, left)
            if unit <= _TINY:
                return shares
            shares[index] += unit
            left -= unit
    return shares


def _fill(
    left: float, claimants: Sequence[Claimant], bucket: Sequence[int], shares: list[float], *, whole: bool, k: float
) -> tuple[float, dict[int, float]]:
    """Divides among claimants of one priority in rounds. Returns the rest, and what rounding took from each part."""
    fractions: dict[int, float] = {}
    again = True
    while again and left > _TINY:
        again = False
        unmet = [index for index in bucket if claimants[index].weight > 0 and claimants[index].request > shares[index]]
        weights = _weights([claimants[index] for index in unmet], k)
        round_total, weight_total = left, sum(weights)
        if weight_total <= 0:
            break
        for index, weight in zip(unmet, weights, strict=True):
            part, missing = round_total * weight / weight_total, claimants[index].request - shares[index]
            if missing <= part:
                given = missing
                fractions.pop(index, None)
            else:
                given = float(floor(part + _TINY)) if whole else part
                if part - given > _TINY:
                    fractions[index] = part - given
            again = again or missing < part
            shares[index] += given
            left -= given
    return left, fractions


def _weights(claimants: Sequence[Claimant], k: float) -> list[float]:
    """Returns normalised weights, lower for claimants that used more than their weight in the past."""
    total = sum(claimant.weight for claimant in claimants)
    return [max(0.0, claimant.weight / total * (1 + k) - k * claimant.usage) for claimant in claimants]


def dominant_share(used: Mapping[T, float], total: Mapping[T, float], weight: float = 1.0) -> float:
    """Returns the largest used part of any resource, divided by the weight. Using a resource with a total of zero
    outweighs everything else."""
    return max((_ratio(amount, total.get(name, 0.0)) for name, amount in used.items()), default=0.0) / weight


def _ratio(amount: float, total: float) -> float:
    if amount <= 0:
        return 0.0
    return amount / total if total > 0 else amount * _OF_NOTHING
