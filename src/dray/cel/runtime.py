"""What compiled code calls: applying functions to values that may be errors, iterating, collecting.

In the exact variant an error is a value (an `EvaluationError` instance) until something decides that it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from dray.cel.errors import CostLimitExceeded, EvaluationError, no_such_overload
from dray.cel.values import NONE, Optional, Value, decode_key, encode_key, keys_of, type_name

COST_LIMIT: Final = 1_000_000


def apply0(function: Callable[[], Value]) -> Value:
    try:
        return function()
    except EvaluationError as error:
        return settled(error)


def apply1(function: Callable[[Value], Value], value: Value) -> Value:
    if type(value) is EvaluationError:
        return value
    try:
        return function(value)
    except EvaluationError as error:
        return settled(error)


def apply2(function: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    if type(left) is EvaluationError:
        return left
    if type(right) is EvaluationError:
        return right
    try:
        return function(left, right)
    except EvaluationError as error:
        return settled(error)


def apply_all(function: Callable[..., Value], *values: Value) -> Value:
    """Applies to operands already known not to be errors."""
    try:
        return function(*values)
    except EvaluationError as error:
        return settled(error)


def settled(error: EvaluationError) -> EvaluationError:
    """The error as a value, without the frames it came through; the cost limit is never a value."""
    if type(error) is not EvaluationError:
        raise error
    return error.with_traceback(None)


def placed(value: Value, offset: int) -> Value:
    """The value; an error that does not know its place yet gets this one."""
    if type(value) is not EvaluationError or value.offset is not None:
        return value
    error = EvaluationError(*value.args)
    error.offset = offset
    return error


def over_budget(cost: int) -> NoReturn:
    error = CostLimitExceeded("operation cancelled: actual cost limit exceeded")
    error.cost = cost
    raise error


def iterate(value: Value) -> Iterable[Value] | EvaluationError:
    """The elements of a list or the keys of a map."""
    if type(value) is list:
        return value
    if isinstance(value, dict):
        return keys_of(value)
    if type(value) is EvaluationError:
        return value
    return EvaluationError(f"got '{type_name(value)}', expected iterable type")


def iterate_pairs(value: Value) -> Iterable[tuple[Value, Value]] | EvaluationError:
    """The entries of a map, or the elements of a list with their indexes."""
    if type(value) is list:
        return enumerate(value)
    if isinstance(value, dict):
        return [(decode_key(key), entry) for key, entry in value.items()]
    if type(value) is EvaluationError:
        return value
    return EvaluationError(f"unsupported comprehension range type: {type_name(value)}")


def push(values: Value, element: Value) -> Value:
    """The list a loop collects, with one element more."""
    if type(values) is EvaluationError:
        return values
    if type(element) is EvaluationError:
        return element
    values.append(element)
    return values


def not_bool(value: Value) -> EvaluationError:
    """Returns the error for a condition that is no bool."""
    return value if type(value) is EvaluationError else no_such_overload("bool")


def build_list(values: list[Value], optional: frozenset[int]) -> Value:
    built: list[Value] = []
    for position, value in enumerate(values):
        if position not in optional:
            built.append(value)
        elif type(value) is not Optional:
            return no_such_overload("[?]")
        elif value is not NONE:
            built.append(value.value)
    return built


def build_map(keys: list[Value], values: list[Value], optional: frozenset[int]) -> Value:
    built: dict[Value, Value] = {}
    for position, (key, value) in enumerate(zip(keys, values, strict=True)):
        if position in optional:
            if type(value) is not Optional:
                return no_such_overload("{?}")
            if value is NONE:
                continue
            value = value.value
        if not isinstance(key, str | int | bool):
            return EvaluationError(f"unsupported key type: {type_name(key)}")
        encoded = encode_key(key)
        if encoded in built:
            return EvaluationError(f"duplicate key in map: {key}")
        built[encoded] = value
    return built
