"""The statements of an exact variant while they are written: names, constants, costs, nested blocks.

`c` is the cost so far. Costs known beforehand are added up in `pending` and charged once; costs that depend on the
operands are computed by the code itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dray.cel import emit, runtime
from dray.cel.attributes import resolve
from dray.cel.cost import runtime_cost
from dray.cel.environment import Environment
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.recursion import Step
from dray.cel.syntax import Call, Node
from dray.cel.values import NONE, Optional, Value

Evaluate = Callable[..., tuple[Value, int]]

# Python nests at most 20 loops; deeper ones move into a function of their own.
_MAX_BLOCKS: Final = 14
_INLINE: Final = (bool, type(None))
_NAMESPACE: Final[dict[str, Any]] = {
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


class Code:
    def __init__(self, environment: Environment, *, places: bool) -> None:
        self.places = places
        """Whether errors are to know their place."""
        self._namespace = dict(_NAMESPACE)
        self._functions: list[ast.stmt] = []
        self._globals: dict[tuple[str, int], str] = {}
        self._pending = 0
        self._blocks = 0
        self._names = 0
        self._scope = {variable: self.new("v") for variable in environment.variables}
        self._parameters = list(self._scope.values())
        self._uses: dict[str, str] = {}
        """The flags to set where a variable is used."""
        self.body: list[ast.stmt] = [emit.assign("c", emit.constant(0))]

    def load(self, value: ast.expr) -> Evaluate:
        """The function that returns this value, and the cost."""
        self.flush()
        self.check_limit()
        self.body.append(emit.return_(emit.tuple_(value, emit.name("c"))))
        self._functions.append(emit.function("run", self._parameters, self.body))
        loaded: Evaluate = emit.load(self._functions, "run", self._namespace)
        return loaded

    # Names and constants.

    def new(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, value: Value) -> ast.expr:
        if type(value) in _INLINE:
            return emit.constant(value)
        return emit.name(self.global_("K", value))

    def known(self, value: ast.expr) -> tuple[Value] | None:
        """Returns the value in a tuple if it is known at compile time, else None."""
        if isinstance(value, ast.Constant):
            return (value.value,)
        if isinstance(value, ast.Name) and value.id.startswith("K"):
            return (self._namespace[value.id],)
        return None

    def failure(self, message: str) -> ast.expr:
        return self.constant(EvaluationError(message))

    def global_(self, prefix: str, value: Any) -> str:
        key = (prefix, id(value))
        if key not in self._globals:
            self._globals[key] = self.new(prefix)
            self._namespace[self._globals[key]] = value
        return self._globals[key]

    def variable(self, name: str) -> ast.expr:
        name = name.lstrip(".") if name.startswith(".") and name not in self._scope else name
        if name not in self._scope:
            return self.failure(f"undeclared reference to '{name}'")
        if name in self._uses:
            self.assign(self._uses[name], emit.constant(True))
        return emit.name(self._scope[name])

    def scoped(self, names: dict[str, str], work: Step[ast.expr] | Node, *, uses: str | None = None) -> Step[ast.expr]:
        """Does work in which variables have other names; where one of them is used, the flag `uses` is set."""
        scope, flags = self._scope, self._uses
        self._scope = {**scope, **names}
        self._uses = {name: flag for name, flag in flags.items() if name not in names}
        if uses is not None:
            self._uses.update(dict.fromkeys(names, uses))
        value: ast.expr = yield work
        self._scope, self._uses = scope, flags
        return value

    # Statements.

    def assign(self, target: str, value: ast.expr) -> None:
        self.body.append(emit.assign(target, value))

    def store(self, value: ast.expr) -> ast.expr:
        target = self.new("t")
        self.assign(target, value)
        return emit.name(target)

    def placed(self, node: Node, value: ast.expr) -> ast.expr:
        """The value, and if it is an error the place of the node with it, where places are wanted."""
        return emit.call("placed", value, emit.constant(node.offset)) if self.places else value

    def leave_on_error(self, result: str, value: ast.expr) -> None:
        """An error becomes the result and ends the block."""
        self.flush()
        self.body.append(emit.if_(emit.is_error(value), [emit.assign(result, value), emit.leave()]))

    @contextmanager
    def captured(self) -> Iterator[list[ast.stmt]]:
        """The statements that are written meanwhile, with their own costs charged among them."""
        outer, self.body = self.body, []
        yield self.body
        self.flush()
        self.body = outer

    @contextmanager
    def block(self) -> Iterator[None]:
        """Puts the statements written in the context into a block that can be left early."""
        with self.captured() as body:
            yield
        self.body.append(emit.block(body))

    def into(self, target: str, work: Step[ast.expr] | Node) -> Step[list[ast.stmt]]:
        """The statements that assign a value."""
        with self.captured() as body:
            self.assign(target, (yield work))
        return body

    def nested(self, work: Step[ast.expr], *used: ast.expr) -> Step[ast.expr]:
        """Does work that needs a block; past Python's limit it goes into a function of its own."""
        self.flush()
        self._blocks += 1
        value = yield from work if self._blocks <= _MAX_BLOCKS else self._outlined(work, used)
        self._blocks -= 1
        return value

    def _outlined(self, work: Step[ast.expr], used: tuple[ast.expr, ...]) -> Step[ast.expr]:
        """Moves work into a function over everything in scope, which returns the value and the cost."""
        blocks, self._blocks = self._blocks, 1
        with self.captured() as body:
            inner = yield work
            self.flush()
            self.body.append(emit.return_(emit.tuple_(inner, emit.name("c"))))
        self._blocks = blocks
        function = self.new("f")
        names = [value.id for value in used if isinstance(value, ast.Name)]
        parameters = ["c", *dict.fromkeys([*self._scope.values(), *names])]
        self._functions.append(emit.function(function, parameters, body))
        for flag in dict.fromkeys([flag for name, flag in self._uses.items() if name in self._scope]):
            self.assign(flag, emit.constant(True))
        value = self.new("t")
        self.body.append(emit.assign_pair(value, "c", emit.call(function, *[emit.name(p) for p in parameters])))
        return emit.name(value)

    # Costs.

    def charge(self, units: int) -> None:
        self._pending += units

    def flush(self) -> None:
        if self._pending:
            self.body.append(emit.add_to("c", emit.constant(self._pending)))
            self._pending = 0

    def check_limit(self) -> None:
        self._limit(emit.constant(runtime.COST_LIMIT + 1))

    def charge_call(self, node: Call, operands: list[ast.expr]) -> None:
        cost = runtime_cost(node)
        if cost is None:
            self.charge(1)
            return
        self.flush()
        self.body.append(emit.add_to("c", emit.call(self.global_("C", cost), *operands)))
        self._limit(emit.name("c"))

    def _limit(self, reported: ast.expr) -> None:
        over = emit.compare(emit.name("c"), ast.Gt(), emit.name("LIMIT"))
        self.body.append(emit.if_(over, [emit.expression(emit.call("over_budget", reported))]))
