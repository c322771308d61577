"""Consumable capacity: how much of a device one request consumes, and whether its policies allow that.

Ranges are computed in whole units, rounded up; with fractions allowed in milli units, where the bounds and the step
of the range have no finer parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.allocation.devices import Capacity, Device, RequestPolicy
from dray.api.quantity import INT64_MAX, Quantity

Amounts = dict[str, Quantity]

_MILLI: Final = -3


class CapacityError(ValueError):
    """The consumption cannot be computed; Kubernetes gives up on the pod then."""


def consumption(device: Device, wanted: Mapping[str, Quantity], *, fractional: bool) -> Amounts | None:
    """Returns the capacity that a request consumes; None if the device can never serve it. Raises CapacityError."""
    if any(name not in device.capacity for name in wanted):
        return None
    amounts: Amounts = {}
    suitable = True
    for name, capacity in device.capacity.items():
        try:
            amount = _amount(capacity, wanted.get(name), fractional)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if amount.nanos < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
        amounts[name] = amount
        suitable = suitable and _allowed(amount, capacity, fractional) and amount <= capacity.value
    return amounts if suitable else None


def _amount(capacity: Capacity, wanted: Quantity | None, fractional: bool) -> Quantity:
    policy = capacity.policy
    if wanted is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return wanted
    if policy.ranged:
        return wanted if policy.minimum is None else _in_range(policy, policy.minimum, wanted, fractional)
    larger = [value for value in policy.values if value >= wanted]
    return min(larger) if larger else wanted


def _in_range(policy: RequestPolicy, minimum: Quantity, wanted: Quantity, fractional: bool) -> Quantity:
    scale = _scale(policy, fractional)
    asked = wanted.scaled(scale)
    if asked > INT64_MAX or (scale == _MILLI and not _exact(wanted)):
        raise CapacityError(f"capacity request cannot be represented in the device's range arithmetic: {wanted}")
    if wanted < minimum:
        return minimum
    if policy.step is None:
        return wanted
    low, step = minimum.scaled(scale), policy.step.scaled(scale)
    rounded = low + -(-(asked - low) // step) * step
    if rounded > INT64_MAX:
        raise CapacityError(f"capacity request cannot be represented in the device's range arithmetic: {wanted}")
    return Quantity(rounded, scale, policy.step.format)


def _scale(policy: RequestPolicy, fractional: bool) -> int:
    bounds = [bound for bound in (policy.minimum, policy.maximum, policy.step) if bound is not None]
    return _MILLI if fractional and all(map(_exact, bounds)) else 0


def _exact(amount: Quantity) -> bool:
    return amount.nanos % 1_000_000 == 0 and abs(amount.nanos) // 1_000_000 <= INT64_MAX


def _allowed(amount: Quantity, capacity: Capacity, fractional: bool) -> bool:
    policy = capacity.policy
    if policy is None or (policy.default is not None and _identical(amount, policy.default)):
        return True
    if policy.ranged:
        return _within(amount, policy, fractional)
    return not policy.values or amount in policy.values


def _within(amount: Quantity, policy: RequestPolicy, fractional: bool) -> bool:
    if policy.maximum is not None and amount > policy.maximum:
        return False
    if policy.step is None or policy.minimum is None:
        return True
    scale = _scale(policy, fractional)
    return (amount.scaled(scale) - policy.minimum.scaled(scale)) % policy.step.scaled(scale) == 0


def _identical(one: Quantity, other: Quantity) -> bool:
    return (one.unscaled, one.scale, one.format, one.wide) == (other.unscaled, other.scale, other.format, other.wide)
