"""The rules that schemas of custom kinds carry as expressions: `x-kubernetes-validations`.

A rule sees the value it stands at as `self` and, on update, what stood there before as `oldSelf`; one that speaks of
`oldSelf` is asked only where there was something. Values are as JSON gives them: text with a format stays text.

What a rule costs is estimated from the sizes that the schema allows: a list without maxItems, a map without
maxProperties and a text without maxLength are as large as a request may be. A rule is asked once for every place that
its part of the schema may have in an object. What nothing is known of counts as little: a rule is refused only where
the schema itself allows too much.
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
from dray.cel.estimate import Declared, estimate_cost
from dray.cel.estimate_calls import FIXED_ONE
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
MOST: Final = 10_000_000
MOST_IN_ALL: Final = 100_000_000
_REQUEST: Final = 3 * 1024 * 1024
_TEXT: Final = Declared(_REQUEST - 2, kind="string")
_SCALAR: Final = Declared(1, kind="int")
_METADATA: Final = Declared(1, fields={"name": _TEXT, "generateName": _TEXT}, kind="object")
_BY_FORMAT: Final = {"duration": 32, "date": 12, "date-time": 39}
_SHORTEST: Final = {"array": 2, "boolean": 4, "integer": 1, "number": 1, "object": 2, "string": 2}


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


class RuleEvaluation:
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


def check_cost(schema: Schema, path: str) -> Iterator[FieldError]:
    """Rules of a schema that may cost too much, each by itself or all together."""
    costs = [
        (at, cost)
        for part, where, places in _parts(schema, path, 1)
        for at, cost in _costs(part, where, places, is_root=where == path)
    ]
    for at, cost in costs:
        if cost > MOST:
            yield errors.forbidden(at, _exceeds("estimated rule cost", cost, MOST))
    total = sum(cost for _, cost in costs)
    if total > MOST_IN_ALL:
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield errors.forbidden(path, _exceeds(what, total, MOST_IN_ALL))


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


def _parts(schema: Schema, path: str, places: int | None) -> Iterator[tuple[Schema, str, int | None]]:
    """Every part of a schema with the number of places it may have in an object; None where that is not limited."""
    yield schema, path, places
    for name, member in (schema.get("properties") or {}).items():
        yield from _parts(member, f"{path}.properties[{name}]", places)
    for member, limit in (("items", "maxItems"), ("additionalProperties", "maxProperties")):
        inner, most = schema.get(member), schema.get(limit)
        if isinstance(inner, dict):
            times = places * most if places is not None and most is not None else None
            yield from _parts(inner, f"{path}.{member}", times)


def _costs(schema: Schema, path: str, places: int | None, *, is_root: bool) -> Iterator[tuple[str, int]]:
    rules = schema.get("x-kubernetes-validations")
    if not rules:
        return
    own = _declared(schema, is_root=is_root)
    if places is None:
        places = (_REQUEST - 2) // (_shortest(schema) + 1)
    for index, rule in enumerate(rules):
        try:
            root = compile_rule(rule.get("rule") or "").root
        except CompileError:
            continue
        cost = estimate_cost(root, declared={"self": own, "oldSelf": own}, unknown=FIXED_ONE)
        yield f"{path}.x-kubernetes-validations[{index}].rule", cost * places


def _declared(schema: Schema, *, is_root: bool = False) -> Declared:
    """The sizes of what a schema allows."""
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(_longest(schema), kind="dyn")
    kind = schema.get("type")
    if kind == "array":
        element = _declared(schema.get("items") or {})
        most = schema.get("maxItems", (_REQUEST - 2) // (_shortest(schema.get("items") or {}) + 1))
        return Declared(most, element=element, kind="list")
    if kind == "object":
        others = schema.get("additionalProperties")
        if isinstance(others, dict):
            most = schema.get("maxProperties", (_REQUEST - 2) // (_shortest(others) + 6))
            return Declared(most, key=_TEXT, element=_declared(others), kind="map")
        fields = {name: _declared(member) for name, member in (schema.get("properties") or {}).items()}
        if is_root or schema.get("x-kubernetes-embedded-resource"):
            fields = {"kind": _TEXT, "apiVersion": _TEXT, "metadata": _METADATA, **fields}
        return Declared(1, fields=fields, kind="object")
    return Declared(_longest(schema), kind="string") if kind == "string" else _SCALAR


def _longest(schema: Schema) -> int:
    if schema.get("maxLength") is not None:
        # A letter may take four bytes.
        return int(schema["maxLength"]) * (1 if schema.get("format") == "byte" else 4)
    words: list[Any] = schema.get("enum") or []
    if words:
        return max(len(word) for word in words if isinstance(word, str)) if any(map(_is_text, words)) else 1
    return _BY_FORMAT.get(schema.get("format") or "", _REQUEST - 2)


def _is_text(word: Any) -> bool:
    return isinstance(word, str)


def _shortest(schema: Schema) -> int:
    """The least number of bytes that a value takes in a request."""
    least = _SHORTEST.get(schema.get("type") or "", 1)
    members = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name in members and members[name].get("default") is None:
            least += len(name) + _shortest(members[name]) + 4
    return least
