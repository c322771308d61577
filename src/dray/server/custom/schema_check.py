"""Schema validation of values: OpenAPI v3 as custom kinds use it.

Errors carry the field's path below the root, and the reasons that Kubernetes gives. On update a part that did not
change is not looked at again, so that a stricter schema does not lock out what was stored before it.

Alternatives multiply with the items of lists: how often a value is held against a schema is counted, and has a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isclose, isfinite
from typing import Any, Final

from dray.api import errors
from dray.api.errors import ErrorType, FieldError
from dray.cel import patterns
from dray.cel.patterns import PatternError
from dray.server.custom import formats
from dray.server.custom.definitions import Schema
from dray.server.patches.json_patch import equal

Errors = Iterator[FieldError]

# Old value of a part that did not exist before.
NEW: Final = object()
# Takes some seconds; an object that fits in the store has hardly as many values.
MAX_WORK: Final = 500_000
# Instructions compiled, and instructions matched, per unit of work.
_COMPILED_BY_UNIT: Final = 16
_MATCHED_BY_UNIT: Final = 4096
# Field of an error that concerns no particular field.
NO_FIELD = "<nil>"


class TooMuchWork(Exception):
    """Raised if checking an object against a schema takes too much work."""


class Work:
    """A budget of checks of values against schemas."""

    __slots__ = ("left", "patterns")

    def __init__(self) -> None:
        self.left = MAX_WORK
        self.patterns: set[str] = set()
        """Patterns whose compilation was charged already."""

    def spend(self, units: int) -> None:
        """Charges the budget; raises TooMuchWork if it is used up."""
        self.left -= units
        if self.left < 0:
            raise TooMuchWork


def check(value: Any, schema: Schema, path: str = "", old: Any = NEW, work: Work | None = None) -> Errors:
    """Yields the errors of a value; `old` is the value before. Raises TooMuchWork."""
    if work is None:
        work = Work()
    work.spend(1)
    if old is not NEW and equal(old, value):
        return
    yield from _check_type(value, schema, path)
    yield from _check_enum(value, schema, path)
    if isinstance(value, str):
        yield from _check_text(value, schema, path, work)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _check_number(value, schema, path)
    elif isinstance(value, list):
        yield from _check_list(value, schema, path, old, work)
    elif isinstance(value, dict):
        yield from _check_object(value, schema, path, old, work)
    yield from _check_combinations(value, schema, path, work)


def effort(schema: Schema) -> int:
    """Returns how often values are checked against parts of the schema, at worst."""
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    below = max((effort(part) for part in inner if isinstance(part, dict)), default=1)
    parts = [part for name in ("allOf", "anyOf", "oneOf") for part in schema.get(name) or ()]
    if isinstance(schema.get("not"), dict):
        parts.append(schema["not"])
    return below + sum(map(effort, parts))


def _check_type(value: Any, schema: Schema, path: str) -> Errors:
    if value is None:
        if not schema.get("nullable") and (schema.get("type") or schema.get("x-kubernetes-int-or-string")):
            yield wrong_type(path, value, schema.get("type") or "integer,string")
        return
    found = type_of(value)
    if schema.get("x-kubernetes-int-or-string"):
        if found not in ("integer", "string"):
            yield wrong_type(path, value, "integer,string")
        return
    expected = schema.get("type")
    whole = found == "integer" or (isinstance(value, float) and value.is_integer())
    fits = found == expected or (expected == "number" and found == "integer") or (expected == "integer" and whole)
    if expected and not fits:
        yield wrong_type(path, value, expected)


def _check_enum(value: Any, schema: Schema, path: str) -> Errors:
    choices = schema.get("enum")
    if choices is None or (value is None and schema.get("nullable")):
        return
    if not any(equal(value, choice) for choice in choices):
        shown = [choice if isinstance(choice, str) else errors.render(choice) for choice in choices]
        yield errors.not_supported(path or NO_FIELD, value, shown)


def _check_text(value: str, schema: Schema, path: str, work: Work) -> Errors:
    longest = schema.get("maxLength")
    if longest is not None and len(value) > longest:
        yield errors.too_long(path, longest)
    shortest = schema.get("minLength")
    if shortest is not None and len(value) < shortest:
        yield errors.invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    expression = schema.get("pattern")
    if expression and not _is_match(expression, value, work):
        yield errors.invalid(path, value, f"{path} in body should match '{expression}'")
    name = schema.get("format")
    if name and not formats.is_valid(value, name):
        yield errors.invalid(path, value, f'{path} in body must be of type {name}: "{value}"')


def _is_match(pattern: str, value: str, work: Work) -> bool:
    """Matches a pattern. Charges each instruction for compilation, and at each character for matching."""
    compiled, instructions = None, 0
    try:
        compiled = patterns.compile_pattern(pattern)
        instructions = compiled.programsize
    except PatternError as error:
        instructions = error.instructions
    if pattern not in work.patterns:
        work.patterns.add(pattern)
        work.spend(instructions // _COMPILED_BY_UNIT)
    work.spend(instructions * len(value) // _MATCHED_BY_UNIT)
    return compiled is not None and compiled.search(value) is not None


def _check_number(value: float, schema: Schema, path: str) -> Errors:
    highest, lowest = schema.get("maximum"), schema.get("minimum")
    if highest is not None and (value > highest or (schema.get("exclusiveMaximum") and value == highest)):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield errors.invalid(path, value, f"{path} in body should be {than} {highest}")
    if lowest is not None and (value < lowest or (schema.get("exclusiveMinimum") and value == lowest)):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield errors.invalid(path, value, f"{path} in body should be {than} {lowest}")
    factor = schema.get("multipleOf")
    if factor and not _is_multiple(value, factor):
        yield errors.invalid(path, value, f"{path} in body should be a multiple of {factor}")


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        ratio = value / factor
    except OverflowError:
        return False
    return isfinite(ratio) and isclose(ratio, round(ratio), rel_tol=1e-12, abs_tol=1e-12)


def _check_list(value: list[Any], schema: Schema, path: str, old: Any, work: Work) -> Errors:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield errors.too_many(path, len(value), most)
    if least is not None and len(value) < least:
        yield errors.invalid(path, value, f"{path} in body should have at least {least} items")
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    before = previous_items(schema, old)
    for index, item in enumerate(value):
        yield from check(item, items, f"{path}[{index}]", before.get(item_key(schema, item), NEW), work)


def item_key(schema: Schema, item: Any) -> str | None:
    """Returns the key of an item in a list with keys; None for other lists, whose items have no old value."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(item, dict):
        return None
    return errors.render([item.get(key) for key in schema.get("x-kubernetes-list-map-keys") or ()])


def previous_items(schema: Schema, old: Any) -> dict[str | None, Any]:
    """Returns the old items of a list with keys, by key."""
    if not isinstance(old, list):
        return {}
    keyed = {item_key(schema, item): item for item in old}
    keyed.pop(None, None)
    return keyed


def _check_object(value: dict[str, Any], schema: Schema, path: str, old: Any, work: Work) -> Errors:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield errors.too_many(path or NO_FIELD, len(value), most)
    if least is not None and len(value) < least:
        detail = f"{path or '.'} in body should have at least {least} properties"
        yield errors.invalid(path or NO_FIELD, value, detail)
    for name in schema.get("required") or ():
        if name not in value:
            yield errors.required(join(path, name))
    properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, item in value.items():
        member = properties.get(name)
        if member is None and isinstance(others, dict):
            member = others
        if member is not None:
            past = old.get(name, NEW) if isinstance(old, dict) else NEW
            yield from check(item, member, join(path, name), past, work)


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_combinations(value: Any, schema: Schema, path: str, work: Work) -> Errors:
    every = schema.get("allOf") or ()
    failures = [list(check(value, part, path, work=work)) for part in every]
    if any(failures):
        yield from (error for found in failures for error in found)
        none = "" if not all(failures) else ". None validated"
        yield _combined(path, f"must validate all the schemas (allOf){none}")
    yield from _check_alternatives(value, schema.get("anyOf") or (), path, work)
    yield from _check_exactly_one(value, schema.get("oneOf") or (), path, work)
    unwanted = schema.get("not")
    if unwanted is not None and _is_valid(value, unwanted, work):
        yield _combined(path, "must not validate the schema (not)")


def _check_alternatives(value: Any, parts: Iterable[Schema], path: str, work: Work) -> Errors:
    parts = list(parts)
    if parts and not any(_is_valid(value, part, work) for part in parts):
        yield _combined(path, "must validate at least one schema (anyOf)")
        yield from min((list(check(value, part, path, work=work)) for part in parts), key=len)


def _check_exactly_one(value: Any, parts: Iterable[Schema], path: str, work: Work) -> Errors:
    parts = list(parts)
    valid = sum(_is_valid(value, part, work) for part in parts)
    if not parts or valid == 1:
        return
    found = "Found none valid" if not valid else f"Found {valid} valid alternatives"
    yield _combined(path, f"must validate one and only one schema (oneOf). {found}")
    if not valid:
        yield from min((list(check(value, part, path, work=work)) for part in parts), key=len)


def _is_valid(value: Any, schema: Schema, work: Work) -> bool:
    return not any(True for _ in check(value, schema, work=work))


def _combined(path: str, what: str) -> FieldError:
    return errors.invalid(NO_FIELD, "", f'"{path}" {what}')


def wrong_type(path: str, value: Any, expected: str) -> FieldError:
    found = type_of(value)
    detail = f'{path or "."} in body must be of type {expected}: "{found}"'
    return FieldError(ErrorType.TYPE_INVALID, path or NO_FIELD, detail, found if value is None else value)


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names.get(type(value), "string")


def check_unique(value: Any, schema: Schema, path: str = "") -> Iterator[FieldError]:
    """Yields errors of duplicate items in sets and keyed lists, and of the names of embedded objects."""
    if isinstance(value, list):
        yield from _check_items(value, schema, path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from check_unique(item, items, f"{path}[{index}]")
    elif isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            yield from _check_embedded(value, path)
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            member = properties.get(name, others)
            if isinstance(member, dict):
                yield from check_unique(item, member, join(path, name))


def _check_items(items: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen = set()
    for index, item in enumerate(items):
        identity = item
        if kind == "map":
            identity = {key: item.get(key) for key in keys} if isinstance(item, dict) else item
        shown = errors.render(identity)
        if shown in seen:
            yield errors.duplicate(f"{path}[{index}]", identity)
        seen.add(shown)


def _check_embedded(value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for member in ("apiVersion", "kind"):
        if not value.get(member):
            yield errors.required(join(path, member), "must not be empty")
