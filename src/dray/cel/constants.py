"""Constant parts of an expression, found the way cel-go's planner does, because constants cost nothing.

Literals, names of types, lists and maps of constants, and conversions of a constant are constants. `x in [constants]`
becomes a look-up in a set, also free of cost.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.api.semver import Semver
from dray.cel.environment import Environment
from dray.cel.errors import CompileError, EvaluationError, InternalFailure
from dray.cel.recursion import Step, run
from dray.cel.runtime import build_list, build_map
from dray.cel.syntax import Call, Ident, ListNode, Literal, MapNode, Node
from dray.cel.values import BoolKey, Uint, Value

_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_HASHABLE: Final = frozenset((bool, int, Uint, float, str))


FOLDED: Final = _CONVERSIONS | {"@in"}
"""The calls that may be constants."""


class Constant(NamedTuple):
    value: Value


class Members:
    """The elements of a constant list, for look-up."""

    __slots__ = ("_values",)

    def __init__(self, values: list[Value]) -> None:
        self._values = frozenset(BoolKey(value) if type(value) is bool else value for value in values)

    def contains(self, value: Value) -> bool:
        kind = type(value)
        if kind in _HASHABLE:
            return (BoolKey(value) if kind is bool else value) in self._values
        if kind is Semver:
            raise InternalFailure("internal error: runtime error: hash of unhashable type cel.Semver")
        return False


class Folder:
    def __init__(self, environment: Environment, text: str) -> None:
        self._environment = environment
        self._text = text
        self._known: dict[Node, Constant | None] = {}
        self.patterns: dict[str, int] = {}
        """The literal patterns of the expression, with their instructions."""
        self.computes_patterns = False

    def fold(self, node: Node) -> Constant | None:
        if type(node) is Literal:
            return Constant(node.value)
        if node not in self._known:
            self._known[node] = run(self._fold(node), self._fold)
        return self._known[node]

    def members(self, node: Call) -> Members | None:
        """The set for `x in [...]` when it can be one."""
        if node.function != "@in" or node.overloads != ("in_list",):
            return None
        folded = self.fold(node.args[1])
        if folded is None or not all(type(value) in _HASHABLE for value in folded.value):
            return None
        return Members(folded.value)

    def _nested(self, node: Node) -> Step[Constant | None]:
        if type(node) is not Literal and node not in self._known:
            self._known[node] = yield node
        return self.fold(node)

    def _fold(self, node: Node) -> Step[Constant | None]:
        if isinstance(node, Call):
            return (yield from self._fold_call(node)) if node.target is None and node.function in FOLDED else None
        if isinstance(node, Ident):
            return None if node.constant is None else Constant(node.constant)
        if isinstance(node, ListNode) and not node.optional:
            elements = yield from self._fold_all(node.elements)
            return None if elements is None else Constant(build_list(elements, node.optional))
        if isinstance(node, MapNode) and not node.optional:
            return (yield from self._fold_map(node))
        return None

    def _fold_all(self, nodes: list[Node]) -> Step[list[Value] | None]:
        values: list[Value] = []
        for node in nodes:
            folded = yield from self._nested(node)
            if folded is None:
                return None
            values.append(folded.value)
        return values

    def _fold_map(self, node: MapNode) -> Step[Constant | None]:
        keys = yield from self._fold_all([key for key, _ in node.entries])
        values = yield from self._fold_all([value for _, value in node.entries])
        if keys is None or values is None:
            return None
        built = build_map(keys, values, node.optional)
        return None if isinstance(built, EvaluationError) else Constant(built)

    def _fold_call(self, node: Call) -> Step[Constant | None]:
        if node.function == "@in":
            folded = (yield from self._nested(node.args[1])) if node.overloads == ("in_list",) else None
            return Constant(False) if folded is not None and not folded.value else None
        if len(node.args) != 1:
            return None
        argument = yield from self._nested(node.args[0])
        function = self._environment.function(node.function)
        if argument is None or function is None:
            return None
        try:
            return Constant(function.implementation(argument.value))
        except EvaluationError as error:
            if not self._environment.checked:
                return None
            message = f"program instantiation failed: {error}"
            raise CompileError(message, text=self._text, offset=node.offset) from None
