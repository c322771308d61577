"""A compiled expression: what it yields, what it costs, what it reads.

`matches` is the hot path. It runs the fast variant where there is one and the device keeps the sizes that the
estimate assumed; whatever that variant raises, the exact variant is asked, and its answer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, NamedTuple

from dray.cel import size_limit
from dray.cel.constants import Folder
from dray.cel.device import Device
from dray.cel.emit import COMPILED
from dray.cel.environment import Environment
from dray.cel.errors import CompileError, CostLimitExceeded, EvaluationError, InternalFailure
from dray.cel.estimate import estimate_cost
from dray.cel.fast import Unsupported, compile_fast
from dray.cel.reads import Reads, find_reads
from dray.cel.runtime import COST_LIMIT
from dray.cel.syntax import Node
from dray.cel.types import Type
from dray.cel.values import Value, type_name

_FAST_NODES: Final = 3000
# The cost of compiling a computed pattern, beside what Kubernetes counts. A budget of 10,000,000 pays for 0.5 s.
# Ordinary patterns have fewer instructions than are free, so that their cost is that of Kubernetes.
_INSTRUCTION_COST: Final = 6
_FREE_INSTRUCTIONS: Final = 1000


class Evaluation(NamedTuple):
    value: Value
    cost: int


class Tree(NamedTuple):
    """The checked tree of an expression, with its constants and size."""

    root: Node
    folder: Folder
    nodes: int


class Program:
    """An expression ready to run. Immutable; may be shared between threads."""

    def __init__(self, expression: str, environment: Environment, tree: Tree) -> None:
        self.expression = expression
        self.environment = environment
        self.result_type: Type = tree.root.type
        self.root = tree.root
        self.nodes = tree.nodes
        """How large the checked tree is."""
        self.instructions = sum(tree.folder.patterns.values())
        """Instructions of its literal patterns."""
        self.computes_patterns = tree.folder.computes_patterns
        """Whether a pattern is compiled while it runs."""
        self._folder = tree.folder
        self._run_fast: Callable[[Device], Value] | bool | None = False

    @cached_property
    def estimated_cost(self) -> int:
        """The worst case under the sizes the API allows; Kubernetes refuses more than COST_LIMIT at creation."""
        return estimate_cost(self.root)

    @property
    def may_run_fast(self) -> bool:
        """Whether it surely stays within the cost limit, and is short enough to be one Python expression."""
        return self.nodes <= _FAST_NODES and self.estimated_cost <= COST_LIMIT

    @cached_property
    def reads(self) -> Reads:
        return find_reads(self.root, self._folder)

    def matches(self, device: Device) -> bool:
        """Whether the device is selected; raises EvaluationError."""
        fast = self._run_fast
        if fast is False:
            fast = self._run_fast = self._compile_fast()
        if fast is not None and device.ordinary:
            try:
                value = fast(device)  # type: ignore[operator]
            except (CostLimitExceeded, InternalFailure):
                raise
            except (EvaluationError, LookupError, RecursionError):
                pass
            else:
                if value is True or value is False:
                    return bool(value)
        value = self.evaluate(device).value
        if value is True or value is False:
            return bool(value)
        raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool")

    def evaluate(self, device: Device) -> Evaluation:
        """The value on a device and its exact cost; raises EvaluationError, which then knows the cost."""
        if device.problem is not None:
            raise device.problem.with_traceback(None)
        return self.run(device)

    def locate(self, device: Device) -> int | None:
        """Returns the offset in the text at which the evaluation on this device fails; None if it does not fail."""
        from dray.cel.exact import compile_exact

        size_limit.start()
        run = compile_exact(self.root, self.environment, self._folder, places=True)
        size_limit.start(self._folder.patterns.keys())
        try:
            value, _ = run(device)
        except EvaluationError:
            return None
        return value.offset if isinstance(value, EvaluationError) else None

    def run(self, *values: Value) -> Evaluation:
        """The value for the given values of the environment's variables, in order."""
        run = self._exact
        size_limit.start(self._folder.patterns.keys())
        try:
            value, cost = run(*values)
        except (RecursionError, MemoryError, OverflowError) as error:
            raise EvaluationError(f"evaluation failed: {type(error).__name__}") from None
        except InternalFailure as panic:
            panic.cost = _cost_at(panic)
            raise
        if self.computes_patterns:
            cost += _INSTRUCTION_COST * max(0, size_limit.computed_instructions() - _FREE_INSTRUCTIONS)
        if isinstance(value, EvaluationError):
            failure = EvaluationError(*value.args)
            failure.cost = cost
            raise failure
        return Evaluation(value, cost)

    @cached_property
    def _exact(self) -> Callable[..., tuple[Value, int]]:
        # Most expressions never need the exact variant, and it is the longest module.
        from dray.cel.exact import compile_exact

        size_limit.start()
        try:
            return compile_exact(self.root, self.environment, self._folder)
        except (RecursionError, SyntaxError, MemoryError):
            message = "expression is nested too deeply"
        raise CompileError(message, text=self.expression)

    def _compile_fast(self) -> Callable[[Any], Value] | None:
        if not self.may_run_fast:
            return None
        size_limit.start()
        try:
            return compile_fast(self.root, self.environment, self._folder)
        except (Unsupported, RecursionError, SyntaxError):
            return None


def _cost_at(panic: InternalFailure) -> int | None:
    """The cost counter of the compiled code at the moment of the failure."""
    trace, cost = panic.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == COMPILED:
            cost = trace.tb_frame.f_locals.get("c")
        trace = trace.tb_next
    return cost
