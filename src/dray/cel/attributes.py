"""Selection and indexing along a chain: `device.attributes["x"].y`, with optionals and presence tests.

A step is (kind, key). `resolve` walks the steps as cel-go does, and counts those it took: each costs one unit, also
the one that fails, but an optional step that finds nothing is free.
"""

from __future__ import annotations

from typing import Final

from dray.cel.errors import EvaluationError
from dray.cel.operators import absent, find_key, list_index, show_key
from dray.cel.values import NONE, Optional, Value, type_name

FIELD: Final = 0
INDEX: Final = 1
OPTIONAL: Final = 2
PRESENT: Final = 3

Step = tuple[int, Value]


class DomainMap(dict[str, dict[str, Value]]):
    """Attributes or capacities by domain. An unknown domain is an empty map, though not `in` this one."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Value]:
        return {}


def resolve(value: Value, steps: tuple[Step, ...]) -> tuple[Value, int]:
    """The value at the end of the chain, or the EvaluationError as a value; and the number of steps counted."""
    optional = False
    count = 0
    for kind, key in steps:
        if type(value) is Optional:
            if value is NONE:
                return False if steps[-1][0] == PRESENT else NONE, count + 1
            value, optional = value.value, True
        try:
            found, present = look_up(value, key, probing=optional or kind >= OPTIONAL)
        except EvaluationError as error:
            return error, count + 1
        if kind == PRESENT:
            return present, count + 1
        if kind == OPTIONAL:
            optional = True
        if not present:
            return False if steps[-1][0] == PRESENT else NONE, count
        value = found
        count += 1
    if optional and type(value) is not Optional:
        value = Optional(value)
    return value, count


def look_up(value: Value, key: Value, *, probing: bool) -> tuple[Value, bool]:
    """Returns the value under `key` and whether it exists; raises EvaluationError if it is absent, unless probing."""
    if isinstance(value, dict):
        found = find_key(value, key)
        if not absent(found):
            return found, True
        if type(value) is DomainMap and type(key) is str:
            return {}, True
        if probing:
            return None, False
        raise EvaluationError(f"no such key: {show_key(key)}")
    if type(value) is list:
        index = list_index(value, key)
        if 0 <= index < len(value):
            return value[index], True
        if probing:
            return None, False
        raise EvaluationError(f"index out of bounds: {index}")
    fields = getattr(type(value), "FIELDS", None)
    if fields is not None and key in fields:
        return getattr(value, fields[key]), True
    raise EvaluationError(f"no such key: {show_key(key)} (in a value of type {type_name(value)})")


def get(value: Value, kind: int, key: Value) -> Value:
    """One step, raising on failure."""
    found, _ = resolve(value, ((kind, key),))
    if isinstance(found, EvaluationError):
        raise found
    return found


def select(value: Value, field: str) -> Value:
    if type(value) is dict and field in value:
        return value[field]
    return get(value, FIELD, field)


def index(value: Value, key: Value) -> Value:
    return get(value, INDEX, key)


def optional_get(value: Value, key: Value) -> Value:
    return get(value, OPTIONAL, key)


def has(value: Value, field: str) -> bool:
    return bool(get(value, PRESENT, field))
