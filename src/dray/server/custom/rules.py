"""The rules that schemas of custom kinds carry as expressions: `x-kubernetes-validations`.

A rule sees the value it stands at as `self` and, on update, what stood there before as `oldSelf`; one that speaks of
`oldSelf` is asked only where there was something, unless it takes it as an optional value. Of what an update left as
it was only such transitions are judged: a rule that came later does not keep anybody from changing something else.

A `RuleNode` is a part of a schema with its rules, compiled against the types of that part, and the nodes below it that
have any: what carries no rules is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from dray.api import errors
from dray.api.errors import ErrorType, FieldError
from dray.api.objects import Object
from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.errors import CelError, CompileError, CostLimitExceeded
from dray.cel.program import Program
from dray.cel.selector import compile_device_expression, compile_selector
from dray.cel.values import NONE, Optional
from dray.server.custom import rule_types
from dray.server.custom.definitions import Schema
from dray.server.custom.schema_check import NEW, NO_FIELD, item_key, join, previous_items
from dray.server.patches.json_patch import equal

# Cost limit of all rules of one object together.
BUDGET: Final = 10_000_000
_TRANSITION = re.compile(r"\boldSelf\b")
_REASONS = {kind.value: kind for kind in (ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.DUPLICATE)}


class Rule:
    """A rule; its expressions are compiled on first use, and raise `CompileError`."""

    def __init__(self, values: Object, types: Environment) -> None:
        self.values = values
        self.text: str = values.get("rule") or ""
        self.message: str | None = values.get("messageExpression")
        self.optional_old = values.get("optionalOldSelf") is True
        self.is_transition = _TRANSITION.search(self.text) is not None
        self._types = types

    def program(self) -> Program:
        return compile_selector(self.text, env=self._types)

    def message_program(self) -> Program:
        return compile_device_expression(self.message or "", env=self._types)

    def past(self, old: Any) -> Any:
        """Returns the value of `oldSelf`, as an optional value if the rule asks for that."""
        if self.optional_old:
            return NONE if old is NEW else Optional(old)
        return None if old is NEW else old


class RuleNode:
    def __init__(self, schema: Schema, path: str = "", *, is_root: bool = True) -> None:
        self.schema = schema
        self.path = path
        self.is_resource = is_root
        members = {
            name: _node(member, f"{path}.properties[{name}]")
            for name, member in (schema.get("properties") or {}).items()
        }
        self.members = {name: node for name, node in members.items() if node is not None}
        self.items = _node(schema.get("items"), f"{path}.items")
        self.others = _node(schema.get("additionalProperties"), f"{path}.additionalProperties")

    def __bool__(self) -> bool:
        """Returns True if this node or a node below it has rules."""
        return bool(self.schema.get("x-kubernetes-validations") or self.members or self.items or self.others)

    @cached_property
    def rules(self) -> list[Rule]:
        given: list[Object] = self.schema.get("x-kubernetes-validations") or []
        types = {
            optional: rule_types.environment(self.schema, is_root=self.is_resource, optional_old=optional)
            for optional in {rule.get("optionalOldSelf") is True for rule in given}
        }
        return [Rule(rule, types[rule.get("optionalOldSelf") is True]) for rule in given]

    @cached_property
    def is_converted(self) -> bool:
        return rule_types.is_converted(self.schema)

    def below(self) -> Iterator[RuleNode]:
        """Yields the node and all nodes below it."""
        yield self
        for node in (*self.members.values(), self.items, self.others):
            if node is not None:
                yield from node.below()


def _node(schema: Any, path: str) -> RuleNode | None:
    """Returns the node of a schema; None if it has no rules."""
    if not isinstance(schema, dict):
        return None
    return RuleNode(schema, path, is_root=bool(schema.get("x-kubernetes-embedded-resource"))) or None


def check_declared(root: RuleNode) -> Iterator[FieldError]:
    """Yields the errors of the rules of a schema."""
    for node in root.below():
        for index, rule in enumerate(node.rules):
            yield from _check_rule(rule, f"{node.path}.x-kubernetes-validations[{index}]")


def _check_rule(rule: Rule, path: str) -> Iterator[FieldError]:
    if not rule.text.strip():
        yield errors.required(f"{path}.rule", "rule is not specified")
        return
    try:
        rule.program()
    except CompileError as error:
        yield errors.invalid(f"{path}.rule", rule.text, f"compilation failed: {error}")
    if rule.optional_old and not rule.is_transition:
        yield errors.invalid(f"{path}.optionalOldSelf", True, "may not be set if oldSelf is not used in rule")
    if rule.message is not None:
        yield from _check_message(rule, f"{path}.messageExpression")


def _check_message(rule: Rule, path: str) -> Iterator[FieldError]:
    text = rule.message or ""
    if not text.strip():
        yield errors.required(path, "must be non-empty if specified")
        return
    try:
        result = rule.message_program().result_type
    except CompileError as error:
        yield errors.invalid(path, text, f"messageExpression compilation failed: {error}")
        return
    if result != t.STRING and not result.dynamic:
        yield errors.invalid(path, text, "messageExpression must evaluate to a string")


class RuleEvaluation:
    """Evaluates the rules of a schema for one object, within a cost budget."""

    def __init__(self) -> None:
        self.left = BUDGET

    def check(
        self, value: Any, node: RuleNode, path: str = "", old: Any = NEW, *, unchanged: bool = False
    ) -> Iterator[FieldError]:
        """`unchanged` is True for parts that an update leaves as they were."""
        unchanged = unchanged or (old is not NEW and equal(value, old))
        if node.rules and value is not None:
            yield from self._check_here(value, node, path, old, unchanged=unchanged)
        if isinstance(value, dict):
            yield from self._check_members(value, node, path, old, unchanged=unchanged)
        elif isinstance(value, list) and node.items is not None:
            before = previous_items(node.schema, old)
            for index, item in enumerate(value):
                past = before.get(item_key(node.schema, item), NEW)
                yield from self.check(item, node.items, f"{path}[{index}]", past, unchanged=unchanged)

    def _check_members(
        self, value: Object, node: RuleNode, path: str, old: Any, *, unchanged: bool
    ) -> Iterator[FieldError]:
        others = None if node.schema.get("properties") else node.others
        for name, item in value.items():
            inner = node.members.get(name) or others
            if inner is not None:
                past = old.get(name, NEW) if isinstance(old, dict) else NEW
                where = join(path, name) if name in node.members else f"{path}[{name}]"
                yield from self.check(item, inner, where, past, unchanged=unchanged)

    def _check_here(self, value: Any, node: RuleNode, path: str, old: Any, *, unchanged: bool) -> Iterator[FieldError]:
        if node.is_converted:
            value = rule_types.converted(value, node.schema)
            old = old if old is NEW else rule_types.converted(old, node.schema)
        for rule in node.rules:
            asked = (old is not NEW or rule.optional_old) if rule.is_transition else not unchanged
            if asked and self.left > 0:
                yield from self._ask(rule, value, node.schema, path, rule.past(old))

    def _ask(self, rule: Rule, value: Any, schema: Schema, path: str, past: Any) -> Iterator[FieldError]:
        field = path + (rule.values.get("fieldPath") or "")
        field = field.removeprefix(".") or NO_FIELD
        # The value may be large: like Kubernetes, show its type instead.
        shown = schema.get("type", "")
        name = rule.values.get("message") or rule.text
        try:
            outcome = rule.program().run(value, past)
        except CostLimitExceeded as error:
            self.left = 0
            why = "no further validation rules will be run due to call cost exceeds limit for rule"
            yield errors.invalid(field, shown, f"'{error}': {why}: {name}")
            return
        except CelError as error:
            yield errors.invalid(field, shown, f"{error} evaluating rule: {name}")
            return
        self.left -= outcome.cost
        if self.left <= 0:
            why = "validation failed due to running out of cost budget, no further validation rules will be run"
            yield errors.invalid(field, shown, why)
        elif outcome.value is not True:
            yield self._failed(rule, field, value, past)

    def _failed(self, rule: Rule, field: str, value: Any, past: Any) -> FieldError:
        detail = self._said(rule, value, past) or rule.values.get("message") or f"failed rule: {rule.text.strip()}"
        kind = _REASONS.get(rule.values.get("reason") or "", ErrorType.INVALID)
        plain = isinstance(value, (str, int, float))
        return FieldError(kind, field, detail, value if plain else errors.OMITTED)

    def _said(self, rule: Rule, value: Any, past: Any) -> str:
        """Returns the text of the rule's message expression; empty if it fails or has several lines."""
        if not rule.message:
            return ""
        try:
            outcome = rule.message_program().run(value, past)
        except CelError:
            return ""
        self.left -= outcome.cost
        said = outcome.value
        return said.strip() if isinstance(said, str) and "\n" not in said else ""
