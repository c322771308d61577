"""The worst-case cost of an expression, as Kubernetes estimates it when an object is created.

Nothing runs. Sizes come from literals, from what calls are known to produce, and from the declared maximum sizes of
the parts of a variable, found by the path of an expression from it; `device` is declared here. An unknown size is
`UNKNOWN`, and so, nearly, is the cost of anything that traverses it, unless the caller knows better.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from dray.cel.cost import LIST_COST, MAP_COST
from dray.cel.device import MAX_ENTRIES, MAX_VALUE
from dray.cel.estimate_calls import FIXED_ONE, UNKNOWN, Size, call_estimate, cap, multiply, union
from dray.cel.recursion import Step, run
from dray.cel.syntax import Call, Comprehension, Ident, ListNode, Literal, MapNode, Node, Select, Struct, first_operand
from dray.cel.types import Type, is_optional

Path = tuple[str, ...]

_UNBOUNDED: Final = 2**63 - 1
_SCALARS: Final = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_DOMAIN: Final = 63
_ID: Final = 32
_STRUCT_COST: Final = 40
_MAX_PATH: Final = 64


class Declared(NamedTuple):
    """A type with the size its values may have; `kind` where the type of an expression does not tell."""

    size: int
    key: Declared | None = None
    element: Declared | None = None
    fields: Mapping[str, Declared] = MappingProxyType({})
    kind: str = ""


_VALUE: Final = Declared(MAX_VALUE)
_QUANTITY: Final = Declared(_UNBOUNDED)
_DEVICE: Final = Declared(
    _UNBOUNDED,
    fields={
        "driver": Declared(_DOMAIN),
        "attributes": Declared(
            MAX_ENTRIES, Declared(_DOMAIN), Declared(MAX_ENTRIES, key=Declared(_ID), element=_VALUE)
        ),
        "capacity": Declared(
            MAX_ENTRIES, Declared(_DOMAIN), Declared(MAX_ENTRIES, key=Declared(_ID), element=_QUANTITY)
        ),
        "allowMultipleAllocations": Declared(_UNBOUNDED),
    },
)


_VARIABLES: Final[Mapping[str, Declared]] = MappingProxyType({"device": _DEVICE})


def estimate_cost(root: Node, *, declared: Mapping[str, Declared] = _VARIABLES, unknown: Size = UNKNOWN) -> int:
    """The cost of a tree over the declared variables; `unknown` is the size of what nothing is known of."""
    estimator = _Estimator(declared, unknown)
    return run(estimator.cost(root), estimator.cost)


class Entry(NamedTuple):
    """The sizes of the keys (or indexes) and values of a list or map."""

    kind: str
    key: Size
    value: Size


class _Local(NamedTuple):
    path: Path
    size: Size | None
    entry: Entry | None


class _Estimator:
    def __init__(self, declared: Mapping[str, Declared], unknown: Size) -> None:
        self.declared = declared
        self.unknown = unknown
        self.paths: dict[Node, Path] = {}
        self.sizes: dict[Node, Size] = {}
        self.entries: dict[Node, Entry] = {}
        self.locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Step[int]:
        """Costs along the spine of first operands are computed from the inside out."""
        chain = [node]
        while (inner := first_operand(chain[-1])) is not None:
            chain.append(inner)
        total = yield from self._leaf(chain.pop())
        while chain:
            outer = chain.pop()
            if isinstance(outer, Select):
                total = self._select(outer, total)
            else:
                total = yield from self._call(outer, total)
        return total

    def _leaf(self, node: Node) -> Step[int]:
        if isinstance(node, Literal):
            return 0
        if isinstance(node, Ident):
            local = self._local(node.name)
            self.paths[node] = local.path if local is not None else (node.name.lstrip("."),)
            return 1
        if isinstance(node, ListNode):
            return (yield from self._list(node))
        if isinstance(node, MapNode):
            return (yield from self._map(node))
        if isinstance(node, Comprehension):
            return (yield from self._bind(node) if node.bind else self._loop(node))
        if isinstance(node, Call):
            return (yield from self._call(node, None))
        assert isinstance(node, Struct)
        total = _STRUCT_COST
        for value in node.values:
            total += yield value
        return total

    # Sizes.

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.path
        return self.paths.get(node, ())

    def size(self, node: Node) -> Size | None:
        """The size of a node's value, None when nothing is known."""
        known = self.sizes.get(node) or _literal_size(node)
        if known is not None:
            return known
        declared = self._declared_size(self.path(node))
        if declared is not None:
            self.sizes[node] = declared
            return declared
        if _is_scalar(node.type):
            return FIXED_ONE
        local = self._local(node.name) if isinstance(node, Ident) else None
        return local.size if local is not None else None

    def size_or_unknown(self, node: Node) -> Size:
        return self.size(node) or self.unknown

    def element_size(self, node: Node) -> Size | None:
        """Returns the size of the elements of a list or map; None if it has none."""
        if not node.type.params:
            return None
        path = self.path(node)
        return (self._declared_size((*path, "@items")) if path else None) or self.unknown

    def _find(self, path: Path) -> Declared | None:
        """Returns the declaration at a path from a variable; None if there is none."""
        current = self.declared.get(path[0]) if path else None
        for step in path[1:]:
            if current is None:
                return None
            if step in ("@items", "@values"):
                current = current.element
            elif step == "@keys":
                current = current.key
            else:
                current = current.fields.get(step) or (_VALUE if current.element is _VALUE else None)
        return current

    def _declared_size(self, path: Path) -> Size | None:
        found = self._find(path)
        return (0, found.size) if found is not None else None

    def _kind(self, node: Node) -> str:
        """`list`, `map` or another: by its type, or where that is unknown by what is declared."""
        found = self._find(self.path(node)) if node.type.dynamic else None
        return found.kind if found is not None else node.type.kind

    def _entry(self, node: Node) -> Entry | None:
        known = self.entries.get(node)
        if known is None and isinstance(node, Ident) and (local := self._local(node.name)) is not None:
            return local.entry
        return known

    def _local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None

    # Nodes.

    def _select(self, node: Select, operand: int) -> int:
        if node.test:
            return operand
        self.paths[node] = _extended(self.path(node.operand), node.field)
        return cap(operand + (self._kind(node.operand) in ("map", "object", "param")))

    def _call(self, node: Node, first: int | None) -> Step[int]:
        assert isinstance(node, Call)
        costs = [] if first is None else [first]
        operands = node.operands()
        for operand in operands[len(costs) :]:
            cost = yield operand
            costs.append(cost)
        if node.function == "dyn":
            self._copy(node, node.args[0])
            return cap(costs[0] + 1)
        if node.function in ("_&&_", "_||_"):
            return cap(sum(costs))
        if node.function == "_?_:_":
            return self._conditional(node, costs)
        own, result = 0, None
        for overload in node.overloads:
            highest, size = call_estimate(self, node, overload)
            own = max(own, highest)
            if size is not None:
                result = size if result is None else union(result, size)
            result = self._index_path(node, overload, result)
            if result is None:
                result = self.size(node)
        if node.overloads and node.overloads[0].startswith("add_"):
            self._join_entries(node)
        if result is not None:
            self.sizes[node] = result
        return cap(sum(costs) + own)

    def _index_path(self, node: Call, overload: str, result: Size | None) -> Size | None:
        if overload not in ("index_list", "index_map"):
            return result
        step = "@items" if overload == "index_list" else "@values"
        self.paths[node] = _extended(self.path(node.args[0]), step)
        entry = self._entry(node.args[0])
        return entry.value if entry is not None else None

    def _join_entries(self, node: Call) -> None:
        one, other = (self._entry(argument) for argument in node.args)
        if one is not None and other is not None:
            self.entries[node] = Entry(one.kind, union(one.key, other.key), union(one.value, other.value))

    def _conditional(self, node: Call, costs: list[int]) -> int:
        then, otherwise = node.args[1:]
        self.sizes[node] = union(self.size_or_unknown(then), self.size_or_unknown(otherwise))
        one, other = self._entry(then), self._entry(otherwise)
        if one is not None and other is not None:
            self.entries[node] = Entry(one.kind, union(one.key, other.key), union(one.value, other.value))
        return cap(costs[0] + max(costs[1], costs[2]))

    def _copy(self, target: Node, source: Node) -> None:
        size, entry = self.size(source), self._entry(source)
        if size is not None:
            self.sizes[target] = size
        if entry is not None:
            self.entries[target] = entry

    def _list(self, node: ListNode) -> Step[int]:
        total = LIST_COST
        element: Size | None = None
        for item in node.elements:
            total += yield item
            size = self.size_or_unknown(item)
            element = size if element is None else union(element, size)
        self.entries[node] = Entry("list", FIXED_ONE, element or (0, 0))
        return cap(total)

    def _map(self, node: MapNode) -> Step[int]:
        total = MAP_COST
        key: Size | None = None
        value: Size | None = None
        for key_node, value_node in node.entries:
            total += yield key_node
            total += yield value_node
            key = self._joined(key, key_node)
            value = self._joined(value, value_node)
        self.entries[node] = Entry("map", key or (0, 0), value or (0, 0))
        return cap(total)

    def _joined(self, size: Size | None, node: Node) -> Size:
        other = self.size_or_unknown(node)
        return other if size is None else union(size, other)

    # Loops.

    def _push(self, name: str, path: Path, size: Size | None, entry: Entry | None = None) -> None:
        self.locals.setdefault(name, []).append(_Local(path, size, entry))

    def _bind(self, node: Comprehension) -> Step[int]:
        total = LIST_COST + (yield node.init)
        self._push(node.accu, self.path(node.init), self.size(node.init), self._entry(node.init))
        total += yield node.result
        self.locals[node.accu].pop()
        self._copy(node, node.result)
        return cap(total)

    def _loop(self, node: Comprehension) -> Step[int]:
        total = (yield node.range) + (yield node.init)
        self._push(node.accu, self.path(node.init), self.size(node.init), self._entry(node.init))
        self._push_variables(node)
        each = cap((yield node.condition) + (yield node.step))
        self.locals[node.var].pop()
        if node.var2 is not None:
            self.locals[node.var2].pop()
        total += yield node.result
        self.locals[node.accu].pop()
        count = self.size_or_unknown(node.range)
        total = cap(total + multiply(count, (0, each))[1])
        if isinstance(node.init, Literal):
            size = self.size(node.init)
            if size is not None:
                self.sizes[node] = size
        elif isinstance(node.init, ListNode | MapNode):
            self.sizes[node] = count
            entry = self._entry(node.step)
            if entry is not None:
                self.entries[node] = entry
        return total

    def _push_variables(self, node: Comprehension) -> None:
        entry = self._entry(node.range)
        path = self.path(node.range)
        kind = entry.kind if entry is not None else self._kind(node.range)
        key = entry.key if entry is not None else None
        value = entry.value if entry is not None else None
        if node.var2 is None:
            if kind == "list":
                self._push(node.var, (*path, "@items"), value)
            else:
                self._push(node.var, (*path, "@keys"), key)
            return
        self._push(node.var, (*path, "@indices" if kind == "list" else "@keys"), key)
        self._push(node.var2, (*path, "@items" if kind == "list" else "@values"), value)


def _extended(path: Path, step: str) -> Path:
    """A step further; nothing is declared so deep that the path need grow without end."""
    return (*path, step) if len(path) < _MAX_PATH else path


def _literal_size(node: Node) -> Size | None:
    if isinstance(node, Literal):
        length = len(node.value) if isinstance(node.value, str | bytes) else 1
    elif isinstance(node, ListNode):
        length = len(node.elements)
    elif isinstance(node, MapNode):
        length = len(node.entries)
    else:
        return None
    return (length, length)


def _is_scalar(type_: Type) -> bool:
    while is_optional(type_):
        type_ = type_.params[0]
    return type_.kind in _SCALARS
