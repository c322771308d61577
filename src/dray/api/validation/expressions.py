"""CEL expressions of selectors and derived attributes: length, compiler, worst-case cost, in this order."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import ExpressionReport, Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_LENGTH = 10240
MAX_COST = 1_000_000
MAX_SELECTORS = 32


def selectors(items: list[Object], path: str, rules: Rules) -> Errors:
    def check(selector: Object, at: str) -> Errors:
        cel = selector.get("cel")
        if cel is None:
            yield errors.required(f"{at}.cel")
            return
        expression, where = cel["expression"], f"{at}.cel.expression"
        if names.size(expression) > MAX_LENGTH:
            yield errors.too_long(where, MAX_LENGTH)
            return
        report = rules.expressions.selector(expression, rules.gates)
        if report.error is not None:
            yield errors.invalid(where, expression, report.error)
        elif report.cost > MAX_COST:
            yield errors.forbidden(where, f"too complex: the worst case costs {report.cost}, the limit is {MAX_COST}")

    yield from fields.limited(items, MAX_SELECTORS, path, check, declarative=True)


def derived(expression: str, path: str, rules: Rules) -> tuple[list[errors.FieldError], int]:
    """Returns the errors of a derived attribute's expression, and its worst-case cost."""
    if not expression:
        return [errors.required(path)], 0
    if names.size(expression) > MAX_LENGTH:
        return [errors.too_long(path, MAX_LENGTH)], 0
    report: ExpressionReport = rules.expressions.derived(expression, rules.gates)
    if report.error is not None:
        return [errors.invalid(path, expression, report.error)], 0
    return [], report.cost
