"""The syntax tree. Macros are expanded while parsing, so the later stages know only these seven shapes.

Operators are calls with the names the CEL specification gives them (`_==_`, `_[_]`). `&&` and `||` chains are one
call with many arguments. The checker writes `type` and, on calls, `overloads` into the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from dray.cel.types import DYN, Type


@dataclass(eq=False, slots=True)
class Node:
    offset: int
    type: Type = field(default=DYN, init=False)

    def children(self) -> Sequence[Node]:
        return ()


@dataclass(eq=False, slots=True)
class Literal(Node):
    value: Any


@dataclass(eq=False, slots=True)
class Ident(Node):
    """A variable, or the name of a type; the latter has `constant` set once checked."""

    name: str
    constant: Any = field(default=None, init=False)


@dataclass(eq=False, slots=True)
class Select(Node):
    """`operand.field`, or with `test` the presence test `has(operand.field)`."""

    operand: Node
    field: str
    test: bool = False

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(eq=False, slots=True)
class Call(Node):
    """A function or operator; `target` is the receiver of a method call."""

    function: str
    args: list[Node]
    target: Node | None = None
    overloads: tuple[str, ...] = field(default=(), init=False)

    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]

    def children(self) -> Sequence[Node]:
        return self.operands()


@dataclass(eq=False, slots=True)
class ListNode(Node):
    elements: list[Node]
    optional: frozenset[int] = frozenset()

    def children(self) -> Sequence[Node]:
        return self.elements


@dataclass(eq=False, slots=True)
class MapNode(Node):
    entries: list[tuple[Node, Node]]
    optional: frozenset[int] = frozenset()

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in entry)


@dataclass(eq=False, slots=True)
class Struct(Node):
    """An object that is made. The checker turns those that an environment knows into maps, and refuses all others."""

    name: str
    fields: list[str]
    values: list[Node]
    optional: frozenset[int] = frozenset()

    def children(self) -> Sequence[Node]:
        return self.values


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """The loop all macros become. `bind` marks `cel.bind` and its kin, which never loop."""

    _: KW_ONLY
    range: Node
    var: str
    accu: str
    init: Node
    condition: Node
    step: Node
    result: Node
    var2: str | None = None
    macro: str = ""
    bind: bool = False

    def children(self) -> tuple[Node, ...]:
        return (self.range, self.init, self.condition, self.step, self.result)


def first_operand(node: Node) -> Node | None:
    """The operand that is visited first and by which long chains (`a + b + c`, `a.b.c`) grow deep."""
    if isinstance(node, Select):
        return node.operand
    if isinstance(node, Call) and node.function not in ("_&&_", "_||_"):
        return node.target if node.target is not None else (node.args[0] if node.args else None)
    return None


def walk(node: Node) -> list[Node]:
    """The node and all below it, outer ones before inner ones."""
    found: list[Node] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        if isinstance(current, Select):
            stack.append(current.operand)
        elif not isinstance(current, (Literal, Ident)):
            stack.extend(current.children())
    return found


def surely_uses(node: Node, name: str) -> bool:
    """Whether evaluating a node certainly looks at a variable, whatever the values are."""
    while True:
        if isinstance(node, Ident):
            return node.name == name
        inner = first_operand(node)
        if isinstance(node, Call) and node.function in ("_&&_", "_||_"):
            inner = node.args[0]
        elif isinstance(node, Comprehension) and node.bind:
            inner = node.result if node.accu != name else None
        elif isinstance(node, Comprehension):
            inner = node.range
        elif isinstance(node, ListNode) and node.elements:
            inner = node.elements[0]
        if inner is None:
            return False
        node = inner
