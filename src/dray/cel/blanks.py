"""Compiled code whose literals are still to be filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from dray.cel.errors import EvaluationError
from dray.cel.values import Value

BLANK: Final = "<blank>"
"""With a position after it in a tuple, it stands for a literal: a constant that no expression has."""


class Open(NamedTuple):
    """A fast variant whose literals are still to be filled in."""

    code: CodeType
    namespace: dict[str, Any]
    computed: dict[str, tuple[Callable[..., Value], list[Any]]]
    """Constants that are computed from literals: the function and its arguments, blanks among them."""

    def fill(self, values: Sequence[Value]) -> Callable[..., Value] | None:
        """The function for these values; None where there is no fast variant with them."""
        namespace = self.namespace
        if self.computed:
            namespace = dict(namespace)
            try:
                for name, (function, arguments) in self.computed.items():
                    namespace[name] = function(*[_filled(argument, values) for argument in arguments])
            except EvaluationError:
                return None
        return FunctionType(_filled(self.code, values), namespace)


def _filled(constant: Any, values: Sequence[Value]) -> Any:
    if type(constant) is tuple and constant and constant[0] == BLANK:
        return values[constant[1]]
    if type(constant) is CodeType:
        return constant.replace(co_consts=tuple([_filled(inner, values) for inner in constant.co_consts]))
    return constant
