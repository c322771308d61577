"""The rules that schemas of custom kinds carry as expressions: `x-kubernetes-validations`.

A rule sees the value it stands at as `self` and, on update, what stood there before as `oldSelf`; one that speaks of
`oldSelf` is asked only where there was something. Values are as JSON gives them: text with a format stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from dray.api import errors
from dray.api.errors import ErrorType, FieldError
from dray.api.objects import Object
from dray.cel import types as t
from dray.cel.environment import DEVICE, Environment
from dray.cel.errors import CelError, CompileError, CostLimitExceeded
from dray.cel.program import Program
from dray.cel.selector import compile_device_expression, compile_selector
from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import NEW, NO_FIELD, item_key, join, previous_items

# What all rules of one object may cost together.
BUDGET: Final = 10_000_000
_ENVIRONMENT: Final = Environment(
    "rule", {"self": t.DYN, "oldSelf": t.DYN}, DEVICE.functions, DEVICE.constants, device_fields={}
)
_TRANSITION = re.compile(r"\boldSelf\b")
_REASONS = {kind.value: kind for kind in (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.DUPLICATE)}


def compile_rule(text: str) -> Program:
    """Raises `CompileError`."""
    return compile_selector(text, env=_ENVIRONMENT)


def compile_message(text: str) -> Program:
    """Raises `CompileError`."""
    return compile_device_expression(text, env=_ENVIRONMENT)


def check_declared(schema: Schema, path: str) -> Iterator[FieldError]:
    """Whether the rules at one place of a schema are rules."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        text = rule.get("rule") or ""
        if not text.strip():
            yield errors.required(f"{at}.rule", "rule is not specified")
            continue
        try:
            compile_rule(text)
        except CompileError as error:
            yield errors.invalid(f"{at}.rule", text, f"compilation failed: {error}")
        message = rule.get("messageExpression")
        if message is not None:
            yield from _check_message(message, f"{at}.messageExpression")


def _check_message(text: str, path: str) -> Iterator[FieldError]:
    if not text.strip():
        yield errors.required(path, "must be non-empty if specified")
        return
    try:
        result = compile_message(text).result_type
    except CompileError as error:
        yield errors.invalid(path, text, f"messageExpression compilation failed: {error}")
        return
    if result != t.STRING and not result.dynamic:
        yield errors.invalid(path, text, "messageExpression must evaluate to a string")


def are_in(schema: Schema) -> bool:
    """Whether a schema has any rules."""
    if schema.get("x-kubernetes-validations"):
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(are_in(member) for member in inner if isinstance(member, dict))


class Asked:
    """One object asked against its rules; what they cost is counted."""

    def __init__(self) -> None:
        self.left = BUDGET

    def check(self, value: Any, schema: Schema, path: str = "", old: Any = NEW) -> Iterator[FieldError]:
        for rule in schema.get("x-kubernetes-validations") or ():
            yield from self._ask(rule, value, schema, path, old)
        if isinstance(value, dict):
            yield from self._check_members(value, schema, path, old)
        elif isinstance(value, list) and isinstance(schema.get("items"), dict):
            before = previous_items(schema, old)
            for index, item in enumerate(value):
                past = before.get(item_key(schema, item), NEW)
                yield from self.check(item, schema["items"], f"{path}[{index}]", past)

    def _check_members(self, value: Object, schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            past = old.get(name, NEW) if isinstance(old, dict) else NEW
            if name in properties:
                yield from self.check(item, properties[name], join(path, name), past)
            elif isinstance(others, dict):
                yield from self.check(item, others, f"{path}[{name}]", past)

    def _ask(self, rule: Object, value: Any, schema: Schema, path: str, old: Any) -> Iterator[FieldError]:
        text = rule.get("rule") or ""
        if value is None or self.left <= 0 or (old is NEW and _TRANSITION.search(text)):
            return
        field = path + rule["fieldPath"] if rule.get("fieldPath") else path
        field = field.removeprefix(".") or NO_FIELD
        # The value may be large: Kubernetes shows what it is instead.
        shown = schema.get("type", "")
        try:
            outcome = compile_rule(text).run(value, None if old is NEW else old)
        except CostLimitExceeded as error:
            self.left = 0
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            yield errors.invalid(field, shown, f"'{error}': {why}: {rule.get('message') or text}")
            return
        except CelError as error:
            yield errors.invalid(field, shown, f"{error} evaluating rule: {rule.get('message') or text}")
            return
        self.left -= outcome.cost
        if self.left <= 0:
            why = "validation failed due to running out of cost budget, no further validation rules will be run"
            yield errors.invalid(field, shown, why)
        elif outcome.value is not True:
            yield self._failed(rule, field, value, old)

    def _failed(self, rule: Object, field: str, value: Any, old: Any) -> FieldError:
        detail = self._said(rule, value, old) or rule.get("message") or f"failed rule: {rule['rule'].strip()}"
        kind = _REASONS.get(rule.get("reason") or "", ErrorType.INVALID)
        return FieldError(kind, field, detail, errors.OMITTED if isinstance(value, (dict, list)) else value)

    def _said(self, rule: Object, value: Any, old: Any) -> str:
        """What the rule's expression for its message says: one line of text, or nothing."""
        expression = rule.get("messageExpression")
        if not expression:
            return ""
        try:
            outcome = compile_message(expression).run(value, None if old is NEW else old)
        except CelError:
            return ""
        self.left -= outcome.cost
        said = outcome.value
        return said.strip() if isinstance(said, str) and "\n" not in said else ""
