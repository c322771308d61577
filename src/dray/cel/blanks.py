"""Compiled code whose literals are still to be filled in.

Literals are parameters of the code that have defaults, so to fill it in is to make a function of the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from dray.cel.errors import EvaluationError
from dray.cel.values import Value


class Blank(NamedTuple):
    """Stands for the literal at a position."""

    position: int

    @property
    def name(self) -> str:
        return f"L{self.position}"


class Open(NamedTuple):
    """A fast variant whose literals are still to be filled in."""

    code: CodeType
    namespace: dict[str, Any]
    positions: list[int]
    """Of the literals that are parameters, in the order of these."""
    computed: list[tuple[Callable[..., Value], list[Any]]]
    """What the parameters after these are computed by: the function and its arguments, blanks among them."""

    def fill(self, values: Sequence[Value]) -> Callable[..., Value] | None:
        """The function for these values; None where there is no fast variant with them."""
        defaults = [values[position] for position in self.positions]
        try:
            for function, arguments in self.computed:
                defaults.append(function(*[values[a.position] if type(a) is Blank else a for a in arguments]))
        except EvaluationError:
            return None
        return FunctionType(self.code, self.namespace, "run", tuple(defaults))
