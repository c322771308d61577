"""What an API server asks about an expression before it stores it: does it compile, and what may it cost."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.gates import FeatureGates
from dray.api.rules import ExpressionReport
from dray.cel.environment import Environment, device_environment
from dray.cel.errors import CompileError
from dray.cel.program import Program
from dray.cel.selector import compile_derived, compile_selector


class Expressions:
    """The expression checker that validation is handed; it compiles against the environment of the gates."""

    def selector(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return _report(lambda: compile_selector(expression, env=environment_of(gates)))

    def derived(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return _report(lambda: compile_derived(expression, env=environment_of(gates)))


def environment_of(gates: FeatureGates) -> Environment:
    return device_environment(
        consumable_capacity=gates["DRAConsumableCapacity"], list_attributes=gates["DRAListTypeAttributes"]
    )


def _report(compile_: Callable[[], Program]) -> ExpressionReport:
    try:
        return ExpressionReport(cost=compile_().estimated_cost)
    except CompileError as error:
        return ExpressionReport(error=f"compilation failed: {error}")
