"""What a call costs at run time, in Kubernetes' units.

Most calls cost one. The table below has the others, by overload where cel-go resolved exactly one, else by function.
Costs follow from the operands alone, so they are charged before the work is done. A failed operand has size one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from dray.cel import types as t
from dray.cel.attributes import DomainMap
from dray.cel.errors import InternalFailure
from dray.cel.library.formats import NamedFormat
from dray.cel.library.network import CIDR, IP
from dray.cel.size_limit import spend
from dray.cel.syntax import Call
from dray.cel.values import Value

RuntimeCost = Callable[..., int]

LIST_COST: Final = 10
MAP_COST: Final = 30
AUTHORIZER_COST: Final = 350_000
_SIZED: Final = frozenset((str, bytes, list, dict, DomainMap))
_SCALARS: Final = frozenset((t.BOOL, t.INT, t.UINT, t.DOUBLE, t.DURATION, t.TIMESTAMP, t.QUANTITY, t.SEMVER))
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25


def size(value: Value) -> int:
    kind = type(value)
    if kind in _SIZED:
        return len(value)
    if kind is IP or kind is CIDR:
        return int(value.byte_size)
    return 1


def traversal(value: Value) -> int:
    """The cost of looking at everything in a value."""
    if isinstance(value, str):
        return int((len(value) if value.isascii() else len(value.encode())) * _TRAVERSAL)
    if isinstance(value, bytes):
        return int(len(value) * _TRAVERSAL)
    if isinstance(value, list):
        spend(len(value) >> 3)
        return sum([traversal(element) for element in value])
    if isinstance(value, dict):
        spend(len(value) >> 3)
        return sum([traversal(k) + traversal(v) for k, v in value.items()])
    return 1


def _first(factor: float) -> RuntimeCost:
    return lambda value, *rest: ceil(size(value) * factor)


def _smaller(left: Value, right: Value) -> int:
    return ceil(min(size(left), size(right)) * _TRAVERSAL)


def _search(value: Value, pattern: Value, *rest: Value) -> int:
    return ceil((1.0 + size(value)) * _TRAVERSAL) * ceil(size(pattern) * _REGEX)


def _join(values: Value, separator: Value = "") -> int:
    if not isinstance(values, list) or not isinstance(separator, str):
        return ceil(2 * _TRAVERSAL)
    if not all([isinstance(value, str) for value in values]):
        return ceil(2 * _TRAVERSAL)
    total = sum([len(value) for value in values]) + len(separator) * max(0, len(values) - 1)
    return ceil(total * 2 * _TRAVERSAL)


def _contains_ip(cidr: Value, other: Value) -> int:
    parse = ceil(size(other) * _TRAVERSAL) if isinstance(other, str) else 0
    return ceil(2 * size(cidr) * _TRAVERSAL) + parse


def _validate(format_: Value, text: Value) -> int:
    if not isinstance(format_, NamedFormat):
        return 1
    return ceil((1.0 + size(text)) * _TRAVERSAL) * ceil(format_.regex_size * _REGEX)


def _product(factor: int) -> RuntimeCost:
    return lambda one, other: 1 + size(one) * size(other) * factor


def _allocated(units: float, length: int) -> int:
    return int(length * units) + 1 + LIST_COST


def _self_compare(values: Value) -> int:
    if type(values) is not list:
        raise InternalFailure("internal error: interface conversion: not a list")
    length = len(values)
    units = 2.0
    if values and isinstance(values[0], str | bytes):
        units += _TRAVERSAL
    return _allocated(units, length * length)


def _slice(values: Value, start: Value, end: Value) -> int:
    fits = isinstance(values, list) and type(start) is int and type(end) is int and 0 <= start <= end <= len(values)
    return _allocated(1, end - start if fits else 1)


def _range(count: Value) -> int:
    return _allocated(1, count if type(count) is int and 0 <= count <= 10_000_000 else 1)


def _flatten(values: Value, depth: Value = 1) -> int:
    return _allocated(depth if type(depth) is int and depth > 0 else 1, size(values))


_BY_FUNCTION: Final[dict[str, RuntimeCost]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), lambda v, *_: traversal(v)),
    "includes": lambda value, _: traversal(value),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP"), _first(_TRAVERSAL)),
    **dict.fromkeys(("isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first(_TRAVERSAL)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * _TRAVERSAL)),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search),
    "ip": lambda value: 1 if isinstance(value, CIDR) else ceil(size(value) * _TRAVERSAL),
    "containsIP": _contains_ip,
    "containsCIDR": lambda cidr, other: _contains_ip(cidr, other) + ceil(size(cidr) * _TRAVERSAL) + 1,
    "validate": _validate,
    "check": lambda *_: AUTHORIZER_COST,
    "_==_": _smaller,
    "_!=_": _smaller,
}
_SORTED: Final = ("int", "uint", "double", "bool", "string", "bytes")
_SORTED_NAMES: Final = (*_SORTED, "google.protobuf.Duration", "google.protobuf.Timestamp")
_BY_OVERLOAD: Final[dict[str, RuntimeCost]] = {
    **dict.fromkeys(
        (
            f"{name}_{kind}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _smaller,
    ),
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda _, part: ceil(size(part) * _TRAVERSAL)),
    **dict.fromkeys(("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"), _first(_TRAVERSAL)),
    **dict.fromkeys(("add_string", "add_bytes"), lambda a, b: ceil((size(a) + size(b)) * _TRAVERSAL)),
    "in_list": lambda _, values: size(values),
    "matches_string": _search,
    "contains_string": lambda value, part: ceil(size(value) * _TRAVERSAL) * ceil(size(part) * _TRAVERSAL),
    "list_sets_contains_list": _product(1),
    "list_sets_intersects_list": _product(1),
    "list_sets_equivalent_list": _product(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda values: _allocated(1, size(values)),
    "list_distinct": _self_compare,
    **{f"list_{kind}_sort": _self_compare for kind in _SORTED_NAMES},
    **{f"list_{kind}_sortByAssociatedKeys": lambda _, keys: _self_compare(keys) for kind in _SORTED_NAMES},
}
# These overloads are costed before Kubernetes looks at the function.
_OVERLOAD_FIRST: Final = frozenset(name for name in _BY_OVERLOAD if name.startswith(("list_", "lists_")))


def runtime_cost(node: Call) -> RuntimeCost | None:
    """How to cost a call; None when it always costs one."""
    overload = node.overloads[0] if len(node.overloads) == 1 else ""
    if overload in _OVERLOAD_FIRST:
        return _BY_OVERLOAD[overload]
    if node.function in ("_==_", "_!=_") and node.args[0].type in _SCALARS and node.args[0].type == node.args[1].type:
        return None
    if node.function in _BY_FUNCTION:
        return _BY_FUNCTION[node.function]
    return _BY_OVERLOAD.get(overload)
