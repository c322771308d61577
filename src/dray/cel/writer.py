"""Statements of the exact variant as they are written: names, constants, costs, nested blocks.

`c` is the cost so far. Costs known beforehand are added up in `pending` and charged once; costs that depend on the
operands are computed by the code itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from dray.cel import emit, runtime
from dray.cel.attributes import resolve
from dray.cel.constants import Folder
from dray.cel.cost import runtime_cost
from dray.cel.environment import Environment
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.syntax import Call, Node
from dray.cel.values import NONE, Optional, Value

_INLINE = (bool, type(None))

_NAMESPACE: dict[str, Any] = {
    "E": EvaluationError,
    "type": type,
    "Optional": Optional,
    "NONE": NONE,
    "LIMIT": runtime.COST_LIMIT,
    "resolve": resolve,
    "no_such_overload": no_such_overload,
    **{
        function.__name__: function
        for function in (
            runtime.apply0,
            runtime.apply1,
            runtime.apply2,
            runtime.apply_all,
            runtime.over_budget,
            runtime.iterate,
            runtime.iterate_pairs,
            runtime.placed,
            runtime.push,
            runtime.not_bool,
            runtime.build_list,
            runtime.build_map,
        )
    },
}


class Writer:
    def __init__(self, environment: Environment, folder: Folder) -> None:
        self.environment = environment
        self.folder = folder
        self.namespace = dict(_NAMESPACE)
        self.functions: list[ast.stmt] = []
        self.body: list[ast.stmt] = []
        self.pending = 0
        self.blocks = 0
        self.counter = 0
        self.scope: dict[str, str] = {}
        self.lazy: dict[str, str] = {}
        self.known: dict[Any, str] = {}
        self.parameters: list[str] = []
        self.places = False

    def _new(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def _constant(self, value: Value) -> ast.expr:
        if type(value) in _INLINE:
            return emit.constant(value)
        return emit.name(self._global("K", value))

    def _known(self, value: ast.expr) -> tuple[Value] | None:
        """What a value is, where that is known already."""
        if isinstance(value, ast.Constant):
            return (value.value,)
        if isinstance(value, ast.Name) and value.id.startswith("K"):
            return (self.namespace[value.id],)
        return None

    def _failure(self, message: str) -> ast.expr:
        return self._constant(EvaluationError(message))

    def _global(self, prefix: str, value: Any) -> str:
        key = (prefix, id(value))
        if key not in self.known:
            self.known[key] = self._new(prefix)
            self.namespace[self.known[key]] = value
        return self.known[key]

    def _store(self, value: ast.expr) -> ast.expr:
        target = self._new("t")
        self.body.append(emit.assign(target, value))
        return emit.name(target)

    def _placed(self, node: Node, value: ast.expr) -> ast.expr:
        """The value, and if it is an error the place of the node with it, where places are wanted."""
        return emit.call("placed", value, emit.constant(node.offset)) if self.places else value

    def _charge(self, units: int) -> None:
        self.pending += units

    def _flush(self) -> None:
        if self.pending:
            self.body.append(emit.add_to("c", emit.constant(self.pending)))
            self.pending = 0

    def _check_limit(self) -> None:
        over = emit.compare(emit.name("c"), ast.Gt(), emit.name("LIMIT"))
        report = emit.call("over_budget", emit.constant(runtime.COST_LIMIT + 1))
        self.body.append(emit.if_(over, [emit.expression(report)]))

    def _charge_call(self, node: Call, operands: list[ast.expr]) -> None:
        cost = runtime_cost(node)
        if cost is None:
            self._charge(1)
            return
        self._flush()
        self.body.append(emit.add_to("c", emit.call(self._global("C", cost), *operands)))
        over = emit.compare(emit.name("c"), ast.Gt(), emit.name("LIMIT"))
        self.body.append(emit.if_(over, [emit.expression(emit.call("over_budget", emit.name("c")))]))

    def _captured(self, work: Callable[[], None]) -> list[ast.stmt]:
        """The statements that `work` emits, with its own costs charged among them."""
        outer, self.body = self.body, []
        work()
        self._flush()
        captured, self.body = self.body, outer
        return captured

    def _into(self, target: str, value: Callable[[], ast.expr]) -> list[ast.stmt]:
        return self._captured(lambda: self.body.append(emit.assign(target, value())))
