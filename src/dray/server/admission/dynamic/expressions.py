"""Expressions of policies and match conditions: compiled once, run with a budget, variables evaluated on first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from dray.api.objects import Object
from dray.cel import policy
from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.errors import CelError, CostLimitExceeded, EvaluationError
from dray.cel.policy import compile_policy
from dray.cel.program import Program
from dray.cel.syntax import Comprehension, walk
from dray.cel.types import Type
from dray.cel.values import Value

_EXPRESSIONS = frozenset(("expression", "messageExpression", "valueExpression"))
_MANY_NODES = 1000
_MANY_INSTRUCTIONS = 10_000
_OVER = "validation failed due to running out of cost budget, no further validation rules will be run"


class Declarations:
    """The variables of a policy and the types of their expressions; raises CompileError.

    `schema` has the types that the policy is checked against; without it objects are of any type.
    """

    def __init__(self, spec: Object, schema: Mapping[str, Any] | None = None, *, mutation: bool = False) -> None:
        self._shared: dict[str, Any] = {"params": spec.get("paramKind") is not None, "mutation": mutation}
        self._shared |= schema or {}
        self.types: dict[str, Type] = {}
        self.programs: dict[str, Program] = {}
        for variable in spec.get("variables") or ():
            self.add(variable)

    def add(self, variable: Object) -> None:
        name = variable["name"]
        program = compile_policy(variable["expression"], self.environment())
        self.types[name], self.programs[name] = program.result_type, program

    def environment(self, *, authorizes: bool = True) -> Environment:
        return policy.environment(variables=dict(self.types), authorizes=authorizes, **self._shared)

    def of_conditions(self) -> Environment:
        return policy.environment(**self._shared)


class Conditions:
    """The matchConditions of a policy or webhook: all must be true. A false condition wins over one that fails."""

    def __init__(self, given: list[Object], environment: Environment) -> None:
        self._given = [
            (condition["name"], compile_policy(condition["expression"], environment, t.BOOL)) for condition in given
        ]

    @property
    def programs(self) -> list[Program]:
        return [program for _, program in self._given]

    def hold(self, run: Evaluation) -> bool:
        """Returns True if all conditions are true.

        Raises EvaluationError if none is false and one cannot be evaluated.
        """
        failed: EvaluationError | None = None
        for name, program in self._given:
            try:
                if run.value(program) is not True:
                    return False
            except EvaluationError as error:
                failed = failed or EvaluationError(f"match condition {name}: {error}")
        if failed is not None:
            raise failed
        return True


class Evaluation:
    """Evaluates expressions: the values of their variables, and the rest of the cost budget."""

    def __init__(self, values: Mapping[str, Value], budget: int = policy.BUDGET) -> None:
        self._values = dict(values)
        self.left = budget

    def set_variables(self, programs: Mapping[str, Program]) -> None:
        self._values["variables"] = _lazy(programs, self)

    def value(self, program: Program) -> Value:
        """Evaluates an expression. Raises EvaluationError; CostLimitExceeded if the budget is spent."""
        if self.left <= 0:
            raise CostLimitExceeded(_OVER)
        values = self._values
        try:
            outcome = program.run(*[values.get(name) for name in program.environment.variables])
        except EvaluationError as error:
            self.left -= error.cost or 0
            raise
        except CelError as error:
            raise EvaluationError(str(error)) from None
        self.left -= outcome.cost
        if self.left < 0:
            raise CostLimitExceeded(_OVER)
        return outcome.value


class _Variables:
    """Evaluates each variable once, when an expression first reads it."""

    FIELDS: ClassVar[dict[str, str]] = {}
    __slots__ = ("_known", "_programs", "_run")

    def __init__(self, programs: Mapping[str, Program], run: Evaluation) -> None:
        self._programs, self._run = programs, run
        self._known: dict[str, Value | EvaluationError] = {}

    def __getattr__(self, name: str) -> Value:
        if name not in self._known:
            try:
                self._known[name] = self._run.value(self._programs[name])
            except EvaluationError as error:
                self._known[name] = EvaluationError(f"composited variable {name!r} fails to evaluate: {error}")
        found = self._known[name]
        if isinstance(found, EvaluationError):
            raise found
        return found


def _lazy(programs: Mapping[str, Program], run: Evaluation) -> _Variables:
    made = type("Variables", (_Variables,), {"FIELDS": {name: name for name in programs}, "__slots__": ()})
    variables: _Variables = made(programs, run)
    return variables


def texts(holder: Any) -> Iterator[str]:
    """Yields all expressions in a spec, at any depth."""
    if isinstance(holder, list):
        for item in holder:
            yield from texts(item)
    elif isinstance(holder, dict):
        for name, value in holder.items():
            if name in _EXPRESSIONS and isinstance(value, str):
                yield value
            elif name not in ("metadata", "clientConfig", "matchConstraints"):
                yield from texts(value)


def loops(programs: Iterable[Program]) -> int:
    """Returns how deep loops are nested in the programs, at most 2; programs without loops take microseconds.

    Very long expressions and long patterns count as two, because they are compiled when they are first run.
    """
    programs = list(programs)
    nodes = [node for program in programs for node in walk(program.root)]
    found = [node for node in nodes if isinstance(node, Comprehension)]
    compiles = any(program.computes_patterns or program.instructions > _MANY_INSTRUCTIONS for program in programs)
    nested = any(isinstance(inner, Comprehension) for node in found for inner in walk(node)[1:])
    if compiles or nested or len(nodes) > _MANY_NODES:
        return 2
    return 1 if found else 0
