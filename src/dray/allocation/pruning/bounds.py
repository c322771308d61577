"""Bounds: reasons why the demands that are left cannot all be served, found without trying.

Each takes the demands of a state, removes devices that no solution can use, and answers whether a solution is still
possible. Each is a relaxation: what it refuses has no solution, what it lets pass may still have none.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from dray.allocation.constraints import Constraint
from dray.allocation.pruning.demands import Alternative, Demand, servable

Value = tuple[str, Any]


def by_count(demands: Iterable[Demand]) -> Demand | None:
    """Returns a demand that lacks devices by itself; None if there is none."""
    for demand in demands:
        if not demand.drop_impossible():
            return demand
    return None


def by_matching(demands: Iterable[Demand], shareable: int) -> bool:
    """Returns False if the requests need more devices together than exist; a shareable device serves each once."""
    wants = []
    for demand in demands:
        if demand.exclusive:
            bits = demand.bits
            wants.append((demand.need - (bits & shareable).bit_count(), bits & ~shareable))
    return servable(wants)


def by_match(covered: Sequence[Demand], constraint: Constraint, shareable: int, *, thorough: bool = True) -> bool:
    """Returns False if no value is shared by enough devices for all covered requests.

    If thorough, removes devices without a possible value from the alternatives; otherwise stops at the first value.
    """
    values: Iterable[Value] | None = constraint.state
    if values is None:
        # Before the first pick, a single device of unknown value may satisfy the constraint.
        if sum(demand.need for demand in covered) < 2:
            return True
        values = dict.fromkeys(
            value for option in covered[0].alternatives for value in constraint.index(option.request).holders
        )
    possible = (value for value in values if _common(value, covered, constraint, shareable))
    if not thorough:
        return next(possible, None) is not None
    found = list(possible)
    for demand in covered:
        for alternative in demand.alternatives:
            holders = constraint.index(alternative.request).holders
            alternative.bits &= functools.reduce(operator.or_, (holders.get(value, 0) for value in found), 0)
    return bool(found)


def _common(value: Value, covered: Sequence[Demand], constraint: Constraint, shareable: int) -> bool:
    """Whether devices with this value can serve all covered requests."""
    wants = []
    for demand in covered:
        union = 0
        for alternative in demand.alternatives:
            bits = alternative.bits & constraint.index(alternative.request).holders.get(value, 0)
            if bits.bit_count() >= alternative.need:
                union |= bits
        if not union:
            return False
        if demand.exclusive:
            wants.append((demand.need - (union & shareable).bit_count(), union & ~shareable))
    return len(wants) < 2 or servable(wants)


def by_distinction(covered: Sequence[Demand], constraint: Constraint) -> bool:
    """Returns False if there are too few distinct values: each pick needs a value, or a list of them, of its own."""
    numbers: dict[Value, int] = {}
    wants = []
    for demand in covered:
        usable = 0
        for alternative in demand.alternatives:
            for value, holders in constraint.index(alternative.request).holders.items():
                if holders & alternative.bits:
                    usable |= 1 << numbers.setdefault(value, len(numbers))
        wants.append((demand.need, usable))
    if constraint.state is None and sum(need for need, _ in wants) < 2:
        return True
    taken = sum(min(_least_values(option, constraint) for option in demand.alternatives) for demand in covered)
    return taken <= len(numbers) and servable(wants)


def _least_values(alternative: Alternative, constraint: Constraint) -> int:
    """How many values the devices of a request have at least, taken together."""
    need, total = alternative.need, 0
    for size, bits in constraint.index(alternative.request).sizes:
        number = min(need, (bits & alternative.bits).bit_count())
        total += number * size
        need -= number
    return total
