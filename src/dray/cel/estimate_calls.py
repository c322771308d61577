"""Estimates per function: the greatest cost of a call, and the size of its result where that is known;
sizes are ranges that saturate at 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final, Protocol

from dray.cel import types as t
from dray.cel.cost import LIST_COST
from dray.cel.syntax import Call, Literal, Node

Size = tuple[int, int]
"""The least and the greatest size a value may have."""

MAX: Final = 2**64 - 1
UNKNOWN: Final[Size] = (0, MAX)
FIXED_ONE: Final[Size] = (1, 1)
Estimate = tuple[int, Size | None]
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
_NAMED_FORMAT_REGEX: Final = 128
_IP_SIZE: Final = 16
_OWN_TYPES: Final = frozenset((t.QUANTITY, t.SEMVER, t.URL, t.IP, t.CIDR, t.FORMAT))
_KINDS: Final = ("int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp")


def cap(value: int) -> int:
    return value if value < MAX else MAX


def add(one: Size, other: Size) -> Size:
    return cap(one[0] + other[0]), cap(one[1] + other[1])


def multiply(one: Size, other: Size) -> Size:
    return cap(one[0] * other[0]), cap(one[1] * other[1])


def union(one: Size, other: Size) -> Size:
    return min(one[0], other[0]), max(one[1], other[1])


def scaled(size: int, factor: float) -> int:
    """A size times a cost factor, rounded up."""
    return cap(ceil(float(size) * factor))


class Sizes(Protocol):
    def size_or_unknown(self, node: Node) -> Size: ...

    def element_size(self, node: Node) -> Size | None: ...


Estimator = Callable[[Sizes, Call], "Estimate | None"]


def call_estimate(sizes: Sizes, node: Call, overload: str) -> Estimate:
    """The cost of one overload of a call, without its operands'."""
    estimator = _LISTS.get(overload) or _BY_FUNCTION.get(node.function) or _BY_OVERLOAD.get(overload)
    estimate = estimator(sizes, node) if estimator is not None else None
    return estimate if estimate is not None else (1, None)


def _max(sizes: Sizes, node: Node) -> int:
    return sizes.size_or_unknown(node)[1]


def _target_traversal(sizes: Sizes, node: Call) -> Estimate | None:
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    return scaled(size[1], _TRAVERSAL), size


def _operand(position: int, factor: float | None = None, result: Size | None = None) -> Estimator:
    """Estimates the cost from one operand's size; without a factor the cost is that size."""

    def estimate(sizes: Sizes, node: Call) -> Estimate:
        size = _max(sizes, node.operands()[position])
        return size if factor is None else scaled(size, factor), result

    return estimate


def _elements(sizes: Sizes, node: Call) -> Estimate | None:
    """One per element, and for strings their traversal; a target without elements is a string."""
    if node.target is None:
        return None
    element = sizes.element_size(node.target)
    size = _max(sizes, node.target)
    if element is None:
        return scaled(size, _TRAVERSAL), None
    each = 1
    if node.target.type.params[0].kind in ("string", "bytes"):
        each = cap(each + scaled(element[1], _TRAVERSAL))
    return cap(size * each), None


def _replace(sizes: Sizes, node: Call) -> Estimate | None:
    if node.target is None:
        return None
    size = sizes.size_or_unknown(node.target)
    old = sizes.size_or_unknown(node.args[0])
    new = sizes.size_or_unknown(node.args[1])
    count = kept = 0
    if old[0] == 0:
        count, kept = cap(size[1] + 1), size[1]
    elif new[1] <= old[0]:
        kept = size[1]
    else:
        count = ceil(size[1] / old[0])
    return scaled(size[1], 2 * _TRAVERSAL), (0, cap(cap(count * new[1]) + kept))


def _split(sizes: Sizes, node: Call) -> Estimate | None:
    if node.target is None:
        return None
    size = _max(sizes, node.target)
    parts = size
    if len(node.args) > 1 and isinstance(node.args[1], Literal) and isinstance(node.args[1].value, int):
        parts = node.args[1].value if node.args[1].value >= 0 else size
    return scaled(size, 2 * _TRAVERSAL), (0, parts)


def _join(sizes: Sizes, node: Call) -> Estimate | None:
    if node.target is None:
        return None
    count = sizes.size_or_unknown(node.target)
    element = sizes.element_size(node.target)
    total: Size = (0, 0) if element is None else multiply(count, element)
    if node.args:
        separators = (max(count[0] - 1, 0), max(count[1] - 1, 0))
        total = add(total, multiply(sizes.size_or_unknown(node.args[0]), separators))
    return scaled(total[1], _TRAVERSAL), total


def _search(sizes: Sizes, node: Call) -> Estimate | None:
    if node.target is None:
        return None
    size = _max(sizes, node.target)
    cost = scaled(cap(size + 1), _TRAVERSAL) * scaled(_max(sizes, node.args[0]), _REGEX)
    return cap(cost), (0, size) if node.function != "matches" else None


def _contains(sizes: Sizes, node: Call) -> Estimate:
    value, part = node.operands()
    return cap(scaled(_max(sizes, value), _TRAVERSAL) * scaled(_max(sizes, part), _TRAVERSAL)), None


def _contains_ip(sizes: Sizes, node: Call) -> Estimate:
    cost = scaled(2 * _IP_SIZE, _TRAVERSAL)
    if node.args[0].type == t.STRING or node.args[0].type.dynamic:
        cost += scaled(_max(sizes, node.args[0]), _TRAVERSAL)
    return cap(cost), None


def _contains_cidr(sizes: Sizes, node: Call) -> Estimate:
    cost, _ = _contains_ip(sizes, node)
    return cap(cost + scaled(_IP_SIZE, _TRAVERSAL) + 1), None


def _validate(sizes: Sizes, node: Call) -> Estimate:
    text = scaled(_max(sizes, node.args[0]), _TRAVERSAL)
    return scaled(text, _NAMED_FORMAT_REGEX * _REGEX), None


def _equality(sizes: Sizes, node: Call) -> Estimate:
    left, right = node.args
    if left.type == right.type and left.type in _OWN_TYPES:
        return 1, None
    return _smaller(sizes, node)


def _smaller(sizes: Sizes, node: Call) -> Estimate:
    left, right = node.args
    return scaled(min(_max(sizes, left), _max(sizes, right)), _TRAVERSAL), None


def _concatenation(sizes: Sizes, node: Call) -> Estimate:
    total = add(sizes.size_or_unknown(node.args[0]), sizes.size_or_unknown(node.args[1]))
    return scaled(total[1], _TRAVERSAL), total


def _converted(growth: int) -> Callable[[Sizes, Call], Estimate]:
    def estimate(sizes: Sizes, node: Call) -> Estimate:
        size = sizes.size_or_unknown(node.args[0])
        return scaled(size[1], _TRAVERSAL), (size[0] // 4, cap(size[1] * growth))

    return estimate


def _quote(sizes: Sizes, node: Call) -> Estimate:
    size = sizes.size_or_unknown(node.args[0])
    return scaled(size[1], _TRAVERSAL), (size[0] + 2, cap(size[1] * 2 + 2))


def _allocated(units: float, size: Size) -> Estimate:
    return cap(scaled(size[1], units) + 1 + LIST_COST), size


def _whole(node: Node, default: int) -> int:
    if isinstance(node, Literal) and isinstance(node.value, int) and node.value >= 0:
        return int(node.value)
    return default


def _slice(sizes: Sizes, node: Call) -> Estimate:
    length = _whole(node.args[1], _max(sizes, node.operands()[0])) - _whole(node.args[0], 0)
    length %= MAX + 1
    return _allocated(1, (length, length))


def _range(sizes: Sizes, node: Call) -> Estimate:
    count = _whole(node.args[0], MAX)
    return _allocated(1, (count, count))


def _flatten(sizes: Sizes, node: Call) -> Estimate:
    depth = _whole(node.args[0], MAX) if node.args else 1
    return _allocated(float(depth), sizes.size_or_unknown(node.operands()[0]))


def _self_compare(position: int, text: bool) -> Callable[[Sizes, Call], Estimate]:
    def estimate(sizes: Sizes, node: Call) -> Estimate:
        size = sizes.size_or_unknown(node.operands()[position])
        return _allocated(2 + _TRAVERSAL if text else 2.0, multiply(size, size))

    return estimate


def _product(factor: int) -> Callable[[Sizes, Call], Estimate]:
    def estimate(sizes: Sizes, node: Call) -> Estimate:
        return cap(cap(_max(sizes, node.args[0]) * _max(sizes, node.args[1])) * factor + 1), None

    return estimate


_BY_FUNCTION: Final[dict[str, Estimator]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _elements),
    "includes": _operand(0),
    "url": _operand(0, _TRAVERSAL),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target_traversal),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _search),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equality,
    "_!=_": _equality,
}
_BY_OVERLOAD: Final[dict[str, Estimator]] = {
    **dict.fromkeys(
        (
            f"{name}_{kind}"
            for name in ("less", "greater", "less_equals", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _smaller,
    ),
    **dict.fromkeys(("starts_with_string", "ends_with_string"), _operand(1, _TRAVERSAL)),
    "string_to_bytes": _converted(4),
    "bytes_to_string": _converted(1),
    "strings_quote": _quote,
    "string_format": _operand(0, _TRAVERSAL, UNKNOWN),
    **dict.fromkeys(("add_string", "add_bytes"), _concatenation),
    "add_list": lambda sizes, node: (1, add(*map(sizes.size_or_unknown, node.args))),
    "in_list": _operand(1),
    "matches_string": _search,
    "contains_string": _contains,
}
_LISTS: Final[dict[str, Estimator]] = {
    "list_sets_contains_list": _product(1),
    "list_sets_intersects_list": _product(1),
    "list_sets_equivalent_list": _product(2),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda sizes, node: _allocated(1, sizes.size_or_unknown(node.operands()[0])),
    "list_distinct": _self_compare(0, False),
    **{f"list_{kind}_sort": _self_compare(0, False) for kind in _KINDS},
    **{f"list_{kind}_sort": _self_compare(0, True) for kind in ("string", "bytes")},
    **{f"list_{kind}_sortByAssociatedKeys": _self_compare(1, False) for kind in _KINDS},
    **{f"list_{kind}_sortByAssociatedKeys": _self_compare(1, True) for kind in ("string", "bytes")},
}
