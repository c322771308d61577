"""requestPolicy: in which amounts the capacity of a shared device may be consumed."""

from __future__ import annotations

from dray.api import errors
from dray.api.gates import FeatureGates
from dray.api.objects import Object
from dray.api.quantity import INT64_MAX, Quantity
from dray.api.validation.fields import Errors

MAX_VALID_VALUES = 10
_MILLI = -3


def validate(capacity: Object, path: str, gates: FeatureGates) -> Errors:
    policy = capacity["requestPolicy"]
    value = Quantity.parse(capacity["value"])
    default = policy["default"]
    values = policy.get("validValues") or []
    valid_range = policy.get("validRange")
    if values and valid_range is not None:
        yield errors.forbidden(path, "exactly one policy can be specified, not both validValues and validRange")
    elif values or valid_range is not None:
        if default is None:
            yield errors.required(f"{path}.default", "needed when validValues or validRange is set")
        elif values:
            yield from _values(Quantity.parse(default), [Quantity.parse(text) for text in values], value, path, gates)
        if valid_range is not None:
            yield from _range(default, valid_range, value, path, gates)


def _values(default: Quantity, values: list[Quantity], capacity: Quantity, path: str, gates: FeatureGates) -> Errors:
    path = f"{path}.validValues"
    for index in range(1, len(values)):
        if values[index] < values[index - 1]:
            yield errors.invalid(f"{path}[{index}]", str(values[index]), "values must be sorted in ascending order")
    if len(values) > MAX_VALID_VALUES:
        yield errors.too_many(path, len(values), MAX_VALID_VALUES)
        yield errors.invalid(path, str(default), "the default is not a valid value")
        return
    seen = set()
    for index, value in enumerate(values):
        if value > capacity:
            yield errors.invalid(f"{path}[{index}]", str(value), f"exceeds the capacity {capacity}")
        identity = value.nanos if gates["DRAFractionalCapacityRange"] else value.value()
        if identity in seen:
            yield errors.duplicate(f"{path}[{index}]", str(value))
        seen.add(identity)
    if default not in values:
        yield errors.invalid(path, str(default), "the default is not a valid value")


def _range(default_text: str | None, limits: Object, capacity: Quantity, path: str, gates: FeatureGates) -> Errors:
    path = f"{path}.validRange"
    if limits.get("min") is None:
        yield errors.required(f"{path}.min")
        return
    low = Quantity.parse(limits["min"])
    high, step, default = (_optional(text) for text in (limits.get("max"), limits.get("step"), default_text))
    if low > capacity:
        yield errors.invalid(f"{path}.min", str(low), f"exceeds the capacity {capacity}")
    if default is not None and default < low:
        yield errors.invalid(f"{path}.default", str(default), f"is less than min {low}")
    if high is not None:
        if low > high:
            yield errors.invalid(f"{path}.max", str(low), f"min is greater than max {high}")
        if high > capacity:
            yield errors.invalid(f"{path}.max", str(high), f"exceeds the capacity {capacity}")
        if default is not None and default > high:
            yield errors.invalid(f"{path}.default", str(default), f"is greater than max {high}")
    yield from _steps(default, low, high, step, capacity, path, gates)


def _optional(text: str | None) -> Quantity | None:
    return None if text is None else Quantity.parse(text)


def _steps(
    default: Quantity | None,
    low: Quantity,
    high: Quantity | None,
    step: Quantity | None,
    capacity: Quantity,
    path: str,
    gates: FeatureGates,
) -> Errors:
    named = {"default": default, "min": low, "max": high, "step": step}
    amounts = {name: amount for name, amount in named.items() if amount is not None}
    fractional = gates["DRAFractionalCapacityRange"] and not all(a.is_integral() for a in amounts.values())
    if fractional:
        unfit = [name for name, amount in amounts.items() if amount.nanos % 10**6]
        for name in unfit:
            yield errors.invalid(f"{path}.{name}", str(amounts[name]), "must be a multiple of one thousandth (1m)")
        if unfit:
            return
    if step is None:
        return
    if step.sign() <= 0:
        yield errors.invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    if low + step > capacity:
        yield errors.invalid(f"{path}.step", str(step), f"one step above min exceeds the capacity {capacity}")
    scale = _MILLI if fractional else 0
    whole = {name: amount.scaled(scale) for name, amount in amounts.items()}
    unfit = [name for name, amount in whole.items() if not fractional and not 0 <= amount <= INT64_MAX]
    for name in unfit:
        yield errors.invalid(f"{path}.{name}", str(amounts[name]), "must not be negative or larger than 2^63-1")
    if unfit:
        return
    for name in ("default", "max"):
        if name in whole and (whole[name] - whole["min"]) % whole["step"]:
            yield errors.invalid(
                f"{path}.step", str(amounts[name]), f"{name} is not a multiple of step {step} above min {low}"
            )
