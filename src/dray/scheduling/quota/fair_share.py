"""Fair shares: how much of a total each of several claimants may have.

`divide` is weighted max-min fairness in rounds: whoever wants less than its part takes what it wants, and the others
share the rest by weight. Before that everybody has its quota, and what is left goes to the highest priority first. Past
usage lowers a weight. In whole units, parts are rounded down, and what that leaves goes to the largest fractions. With
quotas of zero, one priority and no units it is the plain formula.

`dominant_share` is the share that counts where there are several resources: the largest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final, TypeVar

UNLIMITED: Final = -1.0
# What floating point may be off by.
_TINY: Final = 1e-9
_OF_NOTHING: Final = 1e6
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claimant:
    request: float
    """The amount that the queue could use, no more than its limit."""
    weight: float = 1.0
    quota: float = 0.0
    """The amount that the queue gets before others get more than theirs; UNLIMITED for all there is."""
    priority: int = 0
    usage: float = 0.0
    """Past usage, as a fraction of all there was."""


def divide(total: float, claimants: Sequence[Claimant], *, whole: bool = False, k: float = 1.0) -> list[float]:
    """The share of each; of those with equal claims to a last unit the first has it. `k` is how much usage counts.

    Quotas are not scaled down: if they are more than the total, so are the shares.
    """
    shares = [min(total if each.quota < 0 else each.quota, each.request) for each in claimants]
    left = total - sum(shares)
    buckets: dict[int, list[int]] = {}
    for index, each in enumerate(claimants):
        buckets.setdefault(each.priority, []).append(index)
    fractions: dict[int, dict[int, float]] = {}
    for priority in sorted(buckets, reverse=True):
        if left <= _TINY:
            return shares
        left, fractions[priority] = _fill(left, claimants, buckets[priority], shares, whole=whole, k=k)
    for priority in sorted(fractions, reverse=True):
        for index in sorted(fractions[priority], key=lambda each: (-fractions[priority][each], each)):
            unit = min(1.0, left)
            if unit <= _TINY:
                return shares
            shares[index] += unit
            left -= unit
    return shares


def _fill(
    left: float, claimants: Sequence[Claimant], bucket: Sequence[int], shares: list[float], *, whole: bool, k: float
) -> tuple[float, dict[int, float]]:
    """Rounds among those of one priority; gives what is left, and what each is short of its part by rounding."""
    fractions: dict[int, float] = {}
    again = True
    while again and left > _TINY:
        again = False
        hungry = [each for each in bucket if claimants[each].weight > 0 and claimants[each].request > shares[each]]
        weights = _weights([claimants[each] for each in hungry], k)
        round_total, weight_total = left, sum(weights)
        if weight_total <= 0:
            break
        for index, weight in zip(hungry, weights, strict=True):
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
    """Normalised, and lower for those that had more than their weight in the past."""
    total = sum(each.weight for each in claimants)
    return [max(0.0, each.weight / total * (1 + k) - k * each.usage) for each in claimants]


def dominant_share(used: Mapping[T, float], total: Mapping[T, float], weight: float = 1.0) -> float:
    """The largest part of any resource, by weight. What is used of one of which there is nothing to be had outweighs
    everything else."""
    return max((_ratio(amount, total.get(name, 0.0)) for name, amount in used.items()), default=0.0) / weight


def _ratio(amount: float, total: float) -> float:
    if amount <= 0:
        return 0.0
    return amount / total if total > 0 else amount * _OF_NOTHING
