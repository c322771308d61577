"""The `cel` and `cel-spec` corpora: expressions, run in process.

`cel` asks for the outcome on a device and for the cost, in the environment of stored expressions. Go walks maps in
random order, so the cost of `all` or `exists` over a map that stops early is not determined: where only that differs,
the case is `waiting`. `cel-spec` holds the cases of the CEL project; those in `cel_spec_exclusions.json` lie outside
the environment of Kubernetes, each for the reason given there.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from dray.api.objects import mapping
from dray.cel import Device, compile_expression, compile_selector
from dray.cel import types as t
from dray.cel.checker import LITERAL_TYPES
from dray.cel.errors import CompileError, CostLimitExceeded, EvaluationError
from dray.cel.library.moments import parse_duration, parse_timestamp
from dray.cel.program import Program
from dray.cel.syntax import Comprehension, walk
from dray.cel.types import Type
from dray.cel.values import Duration, Timestamp, TypeValue, Uint, Value, decode_key, encode_key
from dray.testing.conformance.corpus import Case, Outcome


def run(case: Case) -> Outcome:
    try:
        program = compile_selector(case["expression"])
    except CompileError as error:
        return Outcome(case["name"], _difference(case["expect"], {"outcome": "compile error"}, error))
    given, detail = _evaluate(program, Device(case["driver"], case["device"]))
    difference = _difference(case["expect"], given, detail)
    return Outcome(case["name"], difference, waiting=_only_order(case["expect"], given, program))


def _evaluate(program: Program, device: Device) -> tuple[dict[str, Any], Value]:
    try:
        value, cost = program.evaluate(device)
    except EvaluationError as error:
        over = isinstance(error, CostLimitExceeded)
        return {"outcome": "runtime error", "cost": error.cost, "overBudget": over}, error
    if value is not True and value is not False:
        return {"outcome": "runtime error", "cost": cost, "overBudget": False}, value
    if program.matches(device) is not value:
        return {"outcome": "the two variants disagree", "cost": cost}, value
    return {"outcome": "match" if value else "no match", "cost": cost}, value


def _difference(expect: dict[str, Any], given: dict[str, Any], detail: Value) -> str | None:
    for key in ("outcome", "overBudget", "cost"):
        if key in expect and expect[key] != given.get(key):
            return f"{key}: expected {expect[key]}, got {given.get(key)} ({str(detail)[:200]})"
    return None


def _only_order(expect: dict[str, Any], given: dict[str, Any], program: Program) -> bool:
    if expect["outcome"] != given["outcome"] or expect.get("cost") == given["cost"]:
        return False
    return any(
        isinstance(node, Comprehension) and node.macro in ("all", "exists") and node.range.type.kind == "map"
        for node in walk(program.root)
    )


def run_spec(case: Case) -> Outcome:
    reason = exclusions().get(case["name"])
    if reason is not None:
        return Outcome(case["name"], reason, waiting=True)
    expect = case["expect"]
    values = {name: _decode(value) for name, value in mapping(case.get("bindings")).items()}
    typed = bool(case.get("typed"))
    variables = {name: _type_of(value) if typed else t.DYN for name, value in values.items()}
    try:
        program = compile_expression(case["expression"], variables, checked=not case.get("unchecked"))
        given = program.run(*values.values()).value
    except (CompileError, EvaluationError) as error:
        return Outcome(case["name"], None if expect.get("error") else f"expected {expect}, got {error}")
    if "value" in expect and _same(given, _decode(expect["value"])):
        return Outcome(case["name"])
    return Outcome(case["name"], f"expected {expect}, got {given!r}")


@cache
def exclusions() -> dict[str, str]:
    """Returns the cases that are left out, with the reason for each."""
    data = (files("dray.testing.conformance") / "cel_spec_exclusions.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, str])


def _decode(value: Any) -> Value:
    """Decodes a value of the corpus: a dict with one key names the type of its text."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "list":
        return [_decode(element) for element in content]
    if kind == "map":
        return {encode_key(_decode(key)): _decode(entry) for key, entry in content}
    return _SCALARS[kind](content)


_SCALARS: dict[str, Any] = {
    "int": int,
    "uint": Uint,
    "double": float,
    "bytes": bytes.fromhex,
    "type": TypeValue,
    "duration": parse_duration,
    "timestamp": parse_timestamp,
}
_TYPES: dict[type, Type] = {**LITERAL_TYPES, Duration: t.DURATION, Timestamp: t.TIMESTAMP}


def _type_of(value: Value) -> Type:
    if isinstance(value, list):
        return t.list_of(_type_of(value[0]) if value else t.DYN)
    if isinstance(value, dict):
        for key, entry in value.items():
            return t.map_of(_type_of(decode_key(key)), _type_of(entry))
        return t.map_of(t.DYN, t.DYN)
    return _TYPES.get(type(value), t.DYN)


def _same(one: Value, other: Value) -> bool:
    """Compares values including types and the signs of zeros; NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return len(one) == len(other) and all(key in other and _same(v, other[key]) for key, v in one.items())
    return bool(one == other)
