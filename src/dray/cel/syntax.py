"""The syntax tree. Macros are expanded while parsing, so the later stages know only these seven shapes.

Operators are calls with the names the CEL specification gives them (`_==_`, `_[_]`). `&&` and `||` chains are one
call with many arguments. The checker writes `type` and, on calls, `overloads` into the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dray.cel.types import DYN, Type


class Node:
    """The commonest nodes set these two themselves: a call less for each of them."""

    __slots__ = ("offset", "type")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.type: Type = DYN

    def children(self) -> Sequence[Node]:
        return ()


class Literal(Node):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Any) -> None:
        self.offset = offset
        self.type = DYN
        self.value = value


class Ident(Node):
    """A variable, or the name of a type; the latter has `constant` set once checked."""

    __slots__ = ("constant", "name")

    def __init__(self, offset: int, name: str) -> None:
        self.offset = offset
        self.type = DYN
        self.name = name
        self.constant: Any = None


class Select(Node):
    """`operand.field`, or with `test` the presence test `has(operand.field)`."""

    __slots__ = ("field", "operand", "test")

    def __init__(self, offset: int, operand: Node, field: str, *, test: bool = False) -> None:
        self.offset = offset
        self.type = DYN
        self.operand = operand
        self.field = field
        self.test = test

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Call(Node):
    """A function or operator; `target` is the receiver of a method call."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, offset: int, function: str, args: list[Node], target: Node | None = None) -> None:
        self.offset = offset
        self.type = DYN
        self.function = function
        self.args = args
        self.target = target
        self.overloads: tuple[str, ...] = ()

    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]

    def children(self) -> Sequence[Node]:
        return self.operands()


class ListNode(Node):
    __slots__ = ("elements", "optional")

    def __init__(self, offset: int, elements: list[Node], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.elements = elements
        self.optional = optional

    def children(self) -> Sequence[Node]:
        return self.elements


class MapNode(Node):
    __slots__ = ("entries", "optional")

    def __init__(self, offset: int, entries: list[tuple[Node, Node]], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(offset)
        self.entries = entries
        self.optional = optional

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in entry)


class Struct(Node):
    """A message literal. Parsed for its errors' sake: no environment here has message types."""

    __slots__ = ("name", "values")

    def __init__(self, offset: int, name: str, values: list[Node]) -> None:
        super().__init__(offset)
        self.name = name
        self.values = values

    def children(self) -> Sequence[Node]:
        return self.values


class Comprehension(Node):
    """The loop all macros become. `bind` marks `cel.bind` and its kin, which never loop."""

    __slots__ = ("accu", "bind", "condition", "init", "macro", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        offset: int,
        *,
        range: Node,  # noqa: A002 - the word of the specification
        var: str,
        accu: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
        var2: str | None = None,
        macro: str = "",
        bind: bool = False,
    ) -> None:
        super().__init__(offset)
        self.range = range
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result
        self.macro = macro
        self.bind = bind

    def children(self) -> tuple[Node, ...]:
        return (self.range, self.init, self.condition, self.step, self.result)


def first_operand(node: Node) -> Node | None:
    """The operand that is visited first and by which long chains (`a + b + c`, `a.b.c`) grow deep."""
    if isinstance(node, Select):
        return node.operand
    if isinstance(node, Call) and node.function not in ("_&&_", "_||_"):
        return node.target if node.target is not None else (node.args[0] if node.args else None)
    return None


def spine(node: Node) -> list[Node]:
    """The chain of first operands below a node, innermost first, so that passes need not recurse into it."""
    chain = [node]
    while (inner := first_operand(chain[-1])) is not None:
        chain.append(inner)
    chain.reverse()
    return chain


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
