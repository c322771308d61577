"""Rules of validation besides the object: feature gates, the expression checker, the namespace's rights.

The selector language lies one layer up, so its checker is handed in. Without one, expressions are only measured
against the length limit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from dray.api.gates import DEFAULT_GATES, FeatureGates


@dataclass(frozen=True, slots=True)
class ExpressionReport:
    """Result of compiling an expression: `error` if it is invalid, else its worst-case `cost`."""

    error: str | None = None
    cost: int = 0


class ExpressionChecker(Protocol):
    """Compiles expressions for the enabled features."""

    def one_object(self) -> AbstractContextManager[object]:
        """Inside, expressions belong to one object: what they may take together is limited."""
        ...

    def selector(self, expression: str, gates: FeatureGates) -> ExpressionReport: ...

    def derived(self, expression: str, gates: FeatureGates) -> ExpressionReport: ...


class LengthOnly:
    """An ExpressionChecker without a compiler: every expression passes."""

    def one_object(self) -> AbstractContextManager[object]:
        return nullcontext()

    def selector(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return ExpressionReport()

    def derived(self, expression: str, gates: FeatureGates) -> ExpressionReport:
        return ExpressionReport()


@dataclass(frozen=True, slots=True)
class Rules:
    gates: FeatureGates = DEFAULT_GATES
    expressions: ExpressionChecker = field(default_factory=LengthOnly)
    # Whether the object's namespace carries the label that permits admin access.
    admin_namespace: bool = False


ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
