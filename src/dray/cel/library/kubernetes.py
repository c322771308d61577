"""Quantities and semantic versions, as Kubernetes offers them to CEL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.api.caches import remember
from dray.api.quantity import Quantity, QuantityError
from dray.api.semver import Semver, SemverError
from dray.cel import types as t
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.operators import checked
from dray.cel.values import Value, register_type

LIBRARY: Final = Library("kubernetes")
LIBRARY.constants["kubernetes.Quantity"] = t.QUANTITY
LIBRARY.constants["kubernetes.Semver"] = t.SEMVER
register_type(Quantity, "kubernetes.Quantity")
register_type(Semver, "kubernetes.Semver")


@remember(1024)
def _parse_quantity(text: str) -> Quantity:
    return Quantity.parse(text)


def quantity(text: Value) -> Quantity:
    if type(text) is not str:
        raise no_such_overload("quantity")
    try:
        return _parse_quantity(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: Value) -> bool:
    if type(text) is not str:
        raise no_such_overload("isQuantity")
    try:
        _parse_quantity(text)
    except QuantityError:
        return False
    return True


def normalize(text: str) -> str:
    """A lenient version made strict: no leading `v` or zeros, missing parts are 0."""
    text = text.removeprefix("v")
    core, plus, build = text.partition("+")
    numbers, dash, prerelease = core.partition("-")
    parts = [part.lstrip("0") or "0" if part else part for part in numbers.split(".")]
    if len(parts) > 3 or (len(parts) < 3 and (plus or dash)):
        return text
    return ".".join(parts + ["0"] * (3 - len(parts))) + dash + prerelease + plus + build


@remember(1024)
def _parse_semver(text: str) -> Semver:
    return Semver.parse(text)


def semver(text: Value, lenient: Value = False) -> Semver:
    if type(text) is not str or type(lenient) is not bool:
        raise no_such_overload("semver")
    try:
        return _parse_semver(normalize(text) if lenient else text)
    except SemverError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: Value, lenient: Value = False) -> bool:
    if type(text) is not str or type(lenient) is not bool:
        raise no_such_overload("isSemver")
    try:
        _parse_semver(normalize(text) if lenient else text)
    except SemverError:
        return False
    return True


def _order(left: Value, right: Value, function: str) -> int:
    """Compares two quantities or two versions; returns -1, 0 or 1."""
    if type(left) is Quantity and type(right) is Quantity:
        one, other = left.nanos, right.nanos
        return (one > other) - (one < other)
    if type(left) is not Semver or type(right) is not Semver:
        raise no_such_overload(function)
    numbers = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
    if numbers[0] != numbers[1]:
        return 1 if numbers[0] > numbers[1] else -1
    if not left.prerelease and not right.prerelease:
        return 0
    return int(left > right) - int(left < right)


def _is_less(left: Value, right: Value) -> bool:
    return _order(left, right, "isLessThan") < 0


def _is_greater(left: Value, right: Value) -> bool:
    return _order(left, right, "isGreaterThan") > 0


def _compare_to(left: Value, right: Value) -> int:
    return _order(left, right, "compareTo")


def _operand(value: Value, function: str) -> Quantity:
    if isinstance(value, Quantity):
        return value
    if type(value) is int:
        return Quantity.of(value)
    raise no_such_overload(function)


def _quantity(value: Value, function: str) -> Quantity:
    if not isinstance(value, Quantity):
        raise no_such_overload(function)
    return value


def _add(left: Value, right: Value) -> Quantity:
    return _quantity(left, "add") + _operand(right, "add")


def _sub(left: Value, right: Value) -> Quantity:
    return _quantity(left, "sub") - _operand(right, "sub")


def _as_integer(value: Value) -> int:
    number = _quantity(value, "asInteger").as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _part(function: str, name: str) -> Callable[[Value], int]:
    def part(value: Value) -> int:
        if not isinstance(value, Semver):
            raise no_such_overload(function)
        return checked(getattr(value, name))

    return part


_f = LIBRARY.function
_f("quantity", quantity, "string_to_quantity: (string) -> Quantity")
_f("isQuantity", _is_quantity, "is_quantity_string: (string) -> bool")
_f("sign", lambda v: _quantity(v, "sign").sign(), "quantity_sign: (Quantity) -> int")
_f("asInteger", _as_integer, "quantity_get_int: Quantity.() -> int")
_f(
    "isInteger",
    lambda v: _quantity(v, "isInteger").as_int64() is not None,
    "quantity_is_integer: Quantity.() -> bool",
)
_f(
    "asApproximateFloat",
    lambda v: _quantity(v, "asApproximateFloat").as_float(),
    "quantity_get_float: Quantity.() -> double",
)
_f("add", _add, "quantity_add: Quantity.(Quantity) -> Quantity", "quantity_add_int: Quantity.(int) -> Quantity")
_f("sub", _sub, "quantity_sub: Quantity.(Quantity) -> Quantity", "quantity_sub_int: Quantity.(int) -> Quantity")
_f(
    "isLessThan",
    _is_less,
    "quantity_is_less_than: Quantity.(Quantity) -> bool",
    "semver_is_less_than: Semver.(Semver) -> bool",
)
_f(
    "isGreaterThan",
    _is_greater,
    "quantity_is_greater_than: Quantity.(Quantity) -> bool",
    "semver_is_greater_than: Semver.(Semver) -> bool",
)
_f(
    "compareTo",
    _compare_to,
    "quantity_compare_to: Quantity.(Quantity) -> int",
    "semver_compare_to: Semver.(Semver) -> int",
)
_f("semver", semver, "string_to_semver: (string) -> Semver", "string_bool_to_semver: (string, bool) -> Semver")
_f("isSemver", _is_semver, "is_semver_string: (string) -> bool", "is_semver_string_bool: (string, bool) -> bool")
for _name in ("major", "minor", "patch"):
    _f(_name, _part(_name, _name), f"semver_{_name}: Semver.() -> int")
