"""The operators on values: equality, order, arithmetic, membership, selection. All raise EvaluationError.

Integers are 64 bit and overflow is an error. Numbers of different kinds compare by value; bool is never a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from dray.api.semver import Semver
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.size_limit import spend
from dray.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    UINT_MAX,
    BoolKey,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    encode_key,
)

_NUMBERS: Final = frozenset((int, Uint, float))
_PLAIN: Final = frozenset((str, bool, int, Uint, float, bytes, type(None), Duration, Timestamp))
_TIME_MIN: Final = -62135596800 * 10**9
_TIME_MAX: Final = 253402300799 * 10**9 + 999_999_999
_CONTAINER_WORK: Final = 12


def equals(left: Value, right: Value) -> bool:
    """CEL's `==`: values of different kinds are unequal, but a Semver on the left insists on a Semver."""
    kind = type(left)
    if kind is type(right):
        if kind in _PLAIN:
            return bool(left == right)
        if kind is list:
            return _lists_equal(left, right)
    elif kind in _NUMBERS and type(right) in _NUMBERS:
        return numbers_equal(left, right)
    if isinstance(left, dict):
        return _maps_equal(left, right)
    if kind is Optional:
        return _optionals_equal(left, right)
    if kind is Semver and type(right) is not Semver:
        raise no_such_overload("_==_")
    return kind is type(right) and bool(left == right)


def differs(left: Value, right: Value) -> bool:
    if type(left) is Semver and type(right) is not Semver:
        return True
    return not equals(left, right)


def numbers_equal(left: Value, right: Value) -> bool:
    if type(left) is float or type(right) is float:
        number, other = (left, right) if type(left) is float else (right, left)
        if math.isnan(number) or math.isinf(number):
            return False
        return bool(float(other) == number)
    return bool(left == right)


def _lists_equal(left: list[Value], right: list[Value]) -> bool:
    if len(left) != len(right):
        return False
    spend(len(left) + _CONTAINER_WORK)
    for one, other in zip(left, right, strict=True):
        if not equals(one, other):
            return False
    return True


def _maps_equal(left: dict[Value, Value], right: Value) -> bool:
    if not isinstance(right, dict) or len(left) != len(right):
        return False
    spend(len(left) + _CONTAINER_WORK)
    for key, value in left.items():
        if key not in right or not equals(value, right[key]):
            return False
    return True


def _optionals_equal(left: Optional, right: Value) -> bool:
    if type(right) is not Optional:
        return False
    if left is NONE or right is NONE:
        return left is right
    return equals(left.value, right.value)


def compare(left: Value, right: Value, function: str = "compare") -> int:
    """Returns -1, 0 or 1, and 2 for NaN. Raises EvaluationError for types without an order."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        return _compare_numbers(left, right)
    if kind is other and kind in _ORDERED:
        return int(left > right) - int(left < right)
    raise no_such_overload(function)


# Raised often in loops, so made once; whoever reports an error makes a fresh one.
DIVISION_BY_ZERO: Final = EvaluationError("division by zero")
_MODULUS_BY_ZERO: Final = EvaluationError("modulus by zero")
_OVERFLOW: Final = EvaluationError("integer overflow")
_ORDERED: Final = frozenset((str, bytes, bool, Duration, Timestamp))


def _compare_numbers(left: Value, right: Value) -> int:
    if left != left or right != right:
        return 2
    if (type(left) is float) != (type(right) is float):
        number = left if type(left) is float else right
        if -(2.0**63) <= number <= 2.0**64:
            left, right = float(left), float(right)
    return int(left > right) - int(left < right)


def less(left: Value, right: Value) -> bool:
    if type(left) is int and type(right) is int:
        return left < right
    return compare(left, right, "_<_") == -1


def less_equal(left: Value, right: Value) -> bool:
    return compare(left, right, "_<=_") in (-1, 0)


def greater(left: Value, right: Value) -> bool:
    if type(left) is int and type(right) is int:
        return left > right
    return compare(left, right, "_>_") == 1


def greater_equal(left: Value, right: Value) -> bool:
    return compare(left, right, "_>=_") in (0, 1)


def checked(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise _OVERFLOW


def checked_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def checked_duration(nanos: int) -> Duration:
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvaluationError("duration overflow")


def checked_timestamp(nanos: int) -> Timestamp:
    if _TIME_MIN <= nanos <= _TIME_MAX:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")


def _add_text(left: Any, right: Any) -> Any:
    return left + right


def _add_lists(left: list[Value], right: list[Value]) -> list[Value]:
    total = len(left) + len(right)
    if total > 256:
        spend(total)
    return left + right


_ADD: Final[dict[tuple[type, type], Callable[[Any, Any], Value]]] = {
    (int, int): lambda a, b: checked(a + b),
    (Uint, Uint): lambda a, b: checked_uint(int(a) + int(b)),
    (float, float): lambda a, b: a + b,
    (str, str): _add_text,
    (bytes, bytes): _add_text,
    (list, list): _add_lists,
    (Duration, Duration): lambda a, b: checked_duration(a.nanos + b.nanos),
    (Timestamp, Duration): lambda a, b: checked_timestamp(a.nanos + b.nanos),
    (Duration, Timestamp): lambda a, b: checked_timestamp(a.nanos + b.nanos),
}
_SUBTRACT: Final[dict[tuple[type, type], Callable[[Any, Any], Value]]] = {
    (int, int): lambda a, b: checked(a - b),
    (Uint, Uint): lambda a, b: checked_uint(int(a) - int(b)),
    (float, float): lambda a, b: a - b,
    (Duration, Duration): lambda a, b: checked_duration(a.nanos - b.nanos),
    (Timestamp, Timestamp): lambda a, b: checked_duration(a.nanos - b.nanos),
    (Timestamp, Duration): lambda a, b: checked_timestamp(a.nanos - b.nanos),
}
_MULTIPLY: Final[dict[tuple[type, type], Callable[[Any, Any], Value]]] = {
    (int, int): lambda a, b: checked(a * b),
    (Uint, Uint): lambda a, b: checked_uint(int(a) * int(b)),
    (float, float): lambda a, b: a * b,
}


def _arithmetic(
    table: dict[tuple[type, type], Callable[[Any, Any], Value]], function: str
) -> Callable[[Value, Value], Value]:
    on_integers = table[int, int]

    def apply(left: Value, right: Value) -> Value:
        if type(left) is int and type(right) is int:
            return on_integers(left, right)
        operation = table.get((type(left), type(right)))
        if operation is None:
            raise no_such_overload(function)
        return operation(left, right)

    return apply


add: Final = _arithmetic(_ADD, "_+_")
subtract: Final = _arithmetic(_SUBTRACT, "_-_")
multiply: Final = _arithmetic(_MULTIPLY, "_*_")


def divide(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is not type(right) or kind not in _NUMBERS:
        raise no_such_overload("_/_")
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise DIVISION_BY_ZERO
    quotient = abs(int(left)) // abs(int(right))
    if kind is Uint:
        return Uint(quotient)
    return checked(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise no_such_overload("_%_")
    if right == 0:
        raise _MODULUS_BY_ZERO
    remainder = abs(int(left)) % abs(int(right))
    if kind is Uint:
        return Uint(remainder)
    if left == INT_MIN and right == -1:
        raise _OVERFLOW
    return -remainder if left < 0 else remainder


def negate(value: Value) -> Value:
    if type(value) is int:
        return checked(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return checked_duration(-value.nanos)
    raise no_such_overload("-_")


def invert(value: Value) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise no_such_overload("!_")


def truth(value: Value) -> bool:
    """The value, if it is a bool."""
    if value is True or value is False:
        return bool(value)
    raise no_such_overload("bool")


def contains(element: Value, container: Value) -> bool:
    """`element in container`: the elements of a list, the keys of a map."""
    if isinstance(container, dict):
        return find_key(container, element) is not _ABSENT
    if type(container) is not list:
        raise no_such_overload("@in")
    for one in container:
        if type(element) is Semver and type(one) is not Semver:
            continue
        if equals(element, one):
            return True
    return False


_ABSENT: Final = object()


def find_key(mapping: dict[Value, Value], key: Value) -> Value:
    kind = type(key)
    if kind is str:
        return mapping.get(key, _ABSENT)
    if kind in _NUMBERS or kind is bool:
        return mapping.get(encode_key(key), _ABSENT)
    return _ABSENT


def absent(value: Value) -> bool:
    return value is _ABSENT


def size(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_such_overload("size")


def list_index(value: list[Value], index: Value) -> int:
    """The position an index means, which may be out of range; an error if it is no whole number."""
    kind = type(index)
    if kind is int or kind is Uint:
        return int(index)
    if kind is float and index.is_integer():
        return int(index)
    raise EvaluationError(f"unsupported index type '{kind.__name__}' in list")


def show_key(key: Value) -> str:
    if isinstance(key, BoolKey):
        return str(key.value).lower()
    return str(key)
