"""Functions on lists: those of Kubernetes, those of cel-go's list extension, and sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Final

from dray.cel import operators
from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.operators import compare, equals
from dray.cel.size_limit import spend
from dray.cel.values import NONE, Duration, Optional, Timestamp, Uint, Value

LIBRARY: Final = Library("lists")
EXTENSION: Final = Library("lists extension")
SETS: Final = Library("sets")
INCLUDES: Final = Library("includes")

_COMPARABLE: Final = frozenset((int, Uint, float, bool, Duration, Timestamp, str, bytes))
_MAX_RANGE: Final = 10_000_000


def _list(values: Value, function: str) -> list[Value]:
    if isinstance(values, list):
        return values
    raise no_such_overload(function)


def _is_sorted(values: Value) -> bool:
    values = _list(values, "isSorted")
    for one, other in pairwise(values):
        if compare(one, other, "isSorted") == 1:
            return False
    return True


def _sum(values: Value) -> Value:
    values = _list(values, "sum")
    if not values:
        return 0
    total = values[0]
    for value in values[1:]:
        total = operators.add(total, value)
    return total


def _extreme(function: str, wanted: int) -> Callable[[Value], Value]:
    def pick(value: Value) -> Value:
        values = _list(value, function)
        if not values:
            raise EvaluationError(f"{function} called on empty list")
        best = values[0]
        for other in values[1:]:
            if compare(other, best, function) == wanted:
                best = other
        return best

    return pick


def _same(one: Value, other: Value) -> bool:
    try:
        return equals(one, other)
    except EvaluationError as error:
        if type(error) is not EvaluationError:
            raise
        return False


def _index_of(values: Value, element: Value) -> int:
    for position, value in enumerate(_list(values, "indexOf")):
        if _same(value, element):
            return position
    return -1


def _last_index_of(values: Value, element: Value) -> int:
    values = _list(values, "lastIndexOf")
    for position in range(len(values) - 1, -1, -1):
        if _same(values[position], element):
            return position
    return -1


def _includes(values: Value, element: Value) -> bool:
    """Whether a list holds the element; a scalar counts as a list of itself."""
    if type(values) is list:
        return any(_same(value, element) for value in values)
    return _same(values, element)


def _slice(value: Value, start: Value, end: Value) -> list[Value]:
    values = _list(value, "slice")
    if type(start) is not int or type(end) is not int:
        raise no_such_overload("slice")
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _flatten(value: Value, depth: Value = 1) -> list[Value]:
    values = _list(value, "flatten")
    if type(depth) is not int:
        raise no_such_overload("flatten")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(depth):
        flat: list[Value] = []
        nested = False
        for element in values:
            if type(element) is list:
                nested = True
                spend(len(element))
                flat.extend(element)
            else:
                flat.append(element)
        if not nested:
            break
        values = flat
    return values


def _sort(values: Value) -> list[Value]:
    return _sort_by_keys(values, values)


def _sort_by_keys(value: Value, by: Value) -> list[Value]:
    values, keys = _list(value, "sort"), _list(by, "sort")
    if len(values) != len(keys):
        raise EvaluationError("expected a list of the same size as the associated keys list")
    if not values:
        return values
    kind = type(keys[0])
    if kind not in _COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    order = cmp_to_key(lambda a, b: compare(a, b) % 3 and compare(a, b))
    return [element for _, element in sorted(zip(keys, values, strict=True), key=lambda pair: order(pair[0]))]


def _range(count: Value) -> list[Value]:
    if type(count) is not int:
        raise no_such_overload("lists.range")
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAX_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(count))


def _reverse(values: Value) -> list[Value]:
    return _list(values, "reverse")[::-1]


def _distinct(values: Value) -> list[Value]:
    unique: list[Value] = []
    for value in _list(values, "distinct"):
        if not any(_same(value, other) for other in unique):
            unique.append(value)
    return unique


def _first(values: Value) -> Value:
    values = _list(values, "first")
    return Optional(values[0]) if values else NONE


def _last(values: Value) -> Value:
    values = _list(values, "last")
    return Optional(values[-1]) if values else NONE


def _sets_contain(values: Value, wanted: Value) -> bool:
    values, wanted = _list(values, "sets.contains"), _list(wanted, "sets.contains")
    return all(any(_same(value, one) for value in values) for one in wanted)


def _sets_equivalent(one: Value, other: Value) -> bool:
    return _sets_contain(one, other) and _sets_contain(other, one)


def _sets_intersect(one: Value, other: Value) -> bool:
    one, other = _list(one, "sets.intersects"), _list(other, "sets.intersects")
    return any(any(_same(first, second) for second in other) for first in one)


_summable = ("int", "uint", "double", "duration")
_comparable = (*_summable, "bool", "string", "bytes", "timestamp")
_names = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

_f = LIBRARY.function
_f("isSorted", _is_sorted, *(f"list_{k}_is_sorted_bool: list<{k}>.() -> bool" for k in _comparable))
_f("sum", _sum, *(f"list_{k}_sum_{k}: list<{k}>.() -> {k}" for k in _summable))
_f("min", _extreme("min", -1), *(f"list_{k}_min_{k}: list<{k}>.() -> {k}" for k in _comparable))
_f("max", _extreme("max", 1), *(f"list_{k}_max_{k}: list<{k}>.() -> {k}" for k in _comparable))
_f("indexOf", _index_of, "list_a_index_of_int: list<A>.(A) -> int")
_f("lastIndexOf", _last_index_of, "list_a_last_index_of_int: list<A>.(A) -> int")
INCLUDES.function("includes", _includes, "dyn_includes: dyn.(dyn) -> bool")

_f = EXTENSION.function
_f("slice", _slice, "list_slice: list<T>.(int, int) -> list<T>")
_f("flatten", _flatten, "list_flatten: list<list<T>>.() -> list<T>", "list_flatten_int: list<dyn>.(int) -> list<dyn>")
_f("sort", _sort, *(f"list_{_names.get(k, k)}_sort: list<{k}>.() -> list<{k}>" for k in _comparable))
_f(
    "@sortByAssociatedKeys",
    _sort_by_keys,
    *(f"list_{_names.get(k, k)}_sortByAssociatedKeys: list<T>.(list<{k}>) -> list<T>" for k in _comparable),
)
_f("lists.range", _range, "lists_range: (int) -> list<int>")
_f("reverse", _reverse, "list_reverse: list<T>.() -> list<T>")
_f("distinct", _distinct, "list_distinct: list<T>.() -> list<T>")
_f("first", _first, "list_first: list<T>.() -> optional<T>")
_f("last", _last, "list_last: list<T>.() -> optional<T>")

_f = SETS.function
_f("sets.contains", _sets_contain, "list_sets_contains_list: (list<T>, list<T>) -> bool")
_f("sets.equivalent", _sets_equivalent, "list_sets_equivalent_list: (list<T>, list<T>) -> bool")
_f("sets.intersects", _sets_intersect, "list_sets_intersects_list: (list<T>, list<T>) -> bool")
