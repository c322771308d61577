"""Calls of functions and operators in the exact variant, all but those that decide what is evaluated at all.

`apply2(add, left, right)` asks about errors, catches them, and lets `add` find out which kinds it has. The functions of
`DIRECT` know the commonest kinds, whole numbers and text, and leave everything else to `apply2`: the rules stay in
`operators`. Measured: a loop of 100,000 divisions takes 1.7 times as long without them, more than an expression may.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Final

from dray.cel import emit, operators
from dray.cel.constants import Folder
from dray.cel.cost import LIST_COST, runtime_cost
from dray.cel.environment import Environment
from dray.cel.exact.chains import STEPS
from dray.cel.exact.code import Code
from dray.cel.recursion import Step
from dray.cel.runtime import apply2
from dray.cel.syntax import Call, Ident, ListNode, Node, first_operand
from dray.cel.values import INT_MAX, INT_MIN, Value

Operator = Callable[[Value, Value], Value]

_COMPARED: Final = frozenset((int, str))
CONTROL: Final = ("_&&_", "_||_", "_?_:_", "or", "orValue")
_ARITHMETIC: Final = ("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_")
_REGEX_CALLS: Final = ("matches", "find", "findAll")


def _arithmetic(function: Operator, on_integers: Callable[[int, int], int]) -> Operator:
    def apply(left: Value, right: Value) -> Value:
        if type(left) is int and type(right) is int and INT_MIN <= (value := on_integers(left, right)) <= INT_MAX:
            return value
        return apply2(function, left, right)

    return apply


def _comparison(function: Operator, on_ordered: Operator) -> Operator:
    def apply(left: Value, right: Value) -> Value:
        if type(left) is type(right) and type(left) in _COMPARED:
            return on_ordered(left, right)
        return apply2(function, left, right)

    return apply


def _divide(left: Value, right: Value) -> Value:
    if type(left) is int and type(right) is int and right == 0:
        return operators.DIVISION_BY_ZERO
    return apply2(operators.divide, left, right)


DIRECT: Final[dict[Operator, Operator]] = {
    operators.add: _arithmetic(operators.add, operator.add),
    operators.subtract: _arithmetic(operators.subtract, operator.sub),
    operators.multiply: _arithmetic(operators.multiply, operator.mul),
    operators.divide: _divide,
    operators.equals: _comparison(operators.equals, operator.eq),
    operators.differs: _comparison(operators.differs, operator.ne),
    operators.less: _comparison(operators.less, operator.lt),
    operators.less_equal: _comparison(operators.less_equal, operator.le),
    operators.greater: _comparison(operators.greater, operator.gt),
    operators.greater_equal: _comparison(operators.greater_equal, operator.ge),
}


class Calls:
    def __init__(self, code: Code, environment: Environment, folder: Folder) -> None:
        self._code = code
        self._environment = environment
        self._folder = folder

    def chain(self, node: Call) -> Step[ast.expr]:
        """A call whose first operand may be a call, and so on: walked from the inside out."""
        chain: list[Call] = [node]
        while True:
            inner = first_operand(chain[-1])
            if not isinstance(inner, Call) or inner.function in STEPS or inner.function in CONTROL:
                break
            if self._folder.fold(inner) is not None:
                break
            chain.append(inner)
        first: ast.expr | None = None
        if inner is not None:
            first = yield inner
        while chain:
            first = yield from self._call(chain.pop(), first)
        assert first is not None
        return first

    def _call(self, node: Call, first: ast.expr | None) -> Step[ast.expr]:
        code = self._code
        function = self._environment.function(node.function)
        if function is None:
            return code.failure(f"undeclared reference to '{node.function}'")
        if not node.overloads and all([len(o.params) != len(node.operands()) for o in function.overloads]):
            return code.failure(f"no such overload: {node.function}")
        if first is not None and (known := self._arithmetic(node, function.implementation, first)) is not None:
            return known
        implementation = emit.name(code.global_("F", function.implementation))
        if first is None:
            code.charge(1)
            return code.store(code.placed(node, emit.call("apply0", implementation)))
        members = self._folder.members(node)
        if members is not None:
            code.flush()
            look_up = emit.name(code.global_("F", members.contains))
            return code.store(code.placed(node, emit.call("apply1", look_up, first)))
        if node.function in ("!_", "@not_strictly_false"):
            return self._negation(node, first)
        rest = node.operands()[1:]
        if _appends(node):
            return (yield from self._push(first, rest[0]))
        if rest and self._stops_early(node, rest):
            return (yield from code.nested(self._strict(node, implementation, first, rest), first))
        operands = [first]
        for operand in rest:
            value = yield operand
            operands.append(value)
        code.charge_call(node, operands)
        direct = DIRECT.get(function.implementation)
        if direct is not None:
            applied = emit.call(code.global_("F", direct), *operands)
        else:
            applied = emit.call(f"apply{len(operands)}", implementation, *operands)
        return code.store(code.placed(node, applied))

    def _arithmetic(self, node: Call, implementation: Callable[..., Value], first: ast.expr) -> ast.expr | None:
        """The result, where both operands are known already; long sums would be long functions."""
        if node.function not in _ARITHMETIC or self._code.places or runtime_cost(node) is not None:
            return None
        left = self._code.known(first)
        right = self._folder.fold(node.args[1]) if left is not None else None
        if left is None or right is None:
            return None
        self._code.charge(1)
        return self._code.constant(apply2(implementation, left[0], right.value))

    def _negation(self, node: Call, value: ast.expr) -> ast.expr:
        self._code.charge(1)
        if node.function == "@not_strictly_false":
            return self._code.store(emit.compare(value, ast.IsNot(), emit.constant(False)))
        wrong = emit.call("not_bool", value)
        inverted = emit.choose(emit.is_(value, emit.constant(False)), emit.constant(True), wrong)
        return self._code.store(emit.choose(emit.is_(value, emit.constant(True)), emit.constant(False), inverted))

    def _stops_early(self, node: Call, rest: list[Node]) -> bool:
        """Whether cel-go runs the call as one of many operands, by its overloads or for a constant pattern."""
        if len(rest) > 1:
            return True
        if node.function in _REGEX_CALLS and self._folder.fold(rest[0]) is not None:
            return True
        return len(node.overloads) > 1 and node.function[0] not in "_@"

    def _push(self, values: ast.expr, last: Node) -> Step[ast.expr]:
        assert isinstance(last, ListNode)
        folded = self._folder.fold(last) is not None
        element = yield last.elements[0]
        self._code.charge(1 if folded else LIST_COST + 1)
        return self._code.store(emit.call("push", values, element))

    def _strict(self, node: Call, implementation: ast.expr, first: ast.expr, rest: list[Node]) -> Step[ast.expr]:
        """Stops at the first operand that is an error, and then costs nothing unless it was the last."""
        code = self._code
        result = code.new("t")
        with code.block():
            operands = [first]
            code.leave_on_error(result, first)
            for operand in rest:
                operands.append((yield operand))
                if operand is rest[-1]:
                    code.charge_call(node, operands)
                if self._folder.fold(operand) is None:
                    code.leave_on_error(result, operands[-1])
            code.assign(result, code.placed(node, emit.call("apply_all", implementation, *operands)))
        return emit.name(result)


def _appends(node: Call) -> bool:
    """Whether this is the step of a loop that collects: its own list plus one element."""
    if node.function != "_+_" or not isinstance(node.args[0], Ident) or not node.args[0].name.startswith("@result"):
        return False
    last = node.args[1]
    return isinstance(last, ListNode) and len(last.elements) == 1 and not last.optional
