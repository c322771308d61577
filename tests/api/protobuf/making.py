"""Documents of any wire type, made at random in the form that Kubernetes writes, and the kinds there are."""

import base64
from random import Random
from typing import Any

from dray.api import wire_types
from dray.api.wire_fields import FIELDS, MODULES

_SCHEMA = "apiextensions_v1.JSONSchemaProps"
_WORDS = ("", "a", "app", "x-1", "Häuser", "😀", "a b\n\t\"'\\", "0", "k8s.io/name", "l" * 200)
_JSON: list[Any] = [{}, {"a": [1, None, "x"]}, [], [{}], "text", 0, 1.5, True, False]


def kinds() -> list[tuple[str, str]]:
    """(apiVersion, kind) of everything that has a message."""
    versions = {module: version for version, module in MODULES.items()}
    found = []
    for type_name, members in FIELDS.items():
        module, _, kind = type_name.partition(".")
        if "kind=0str" in members:
            found.append((versions[module], kind))
    return found


def document(random: Random, api_version: str, kind: str) -> dict[str, Any]:
    type_name = wire_types.type_of(api_version, kind)
    assert type_name is not None
    return {"apiVersion": api_version, "kind": kind, **_message(random, type_name, 6)}


def _message(random: Random, type_name: str, depth: int) -> dict[str, Any]:
    found = {}
    for field in wire_types.fields(type_name):
        if field.numbers != (0,) and random.random() < (0.7 if depth > 3 else 0.3):
            value = _value(random, field.type, depth - 1)
            # What is zero is absent, where JSON does not have it.
            if value is not None and (value or field.marks or not isinstance(value, str | int | float | list)):
                found[field.name] = value
    return {name: value for name, value in found.items() if value != [] and (value != {} or random.random() < 0.5)}


def _value(random: Random, kind: str, depth: int) -> Any:
    if kind.startswith("[]"):
        return [_item(random, kind[2:], depth) for _ in range(random.choice((0, 1, 1, 3)) if depth > 0 else 0)]
    if kind.startswith("{}"):
        keys = random.sample(_WORDS, random.choice((1, 1, 3))) if depth > 0 else ["k"]
        return {key: _item(random, kind[2:], depth) for key in keys}
    if "." in kind:
        return _message(random, kind, depth) if depth > 0 else {}
    return _plain(random, kind, depth)


def _item(random: Random, kind: str, depth: int) -> Any:
    if kind == "strings":
        return [random.choice(_WORDS) for _ in range(random.randint(0, 2))]
    return _value(random, kind, depth)


def _plain(random: Random, kind: str, depth: int) -> Any:
    match kind:
        case "str":
            return random.choice(_WORDS)
        case "bytes":
            return base64.b64encode(random.randbytes(random.choice((0, 1, 2, 3, 200)))).decode()
        case "bool":
            return random.random() < 0.5
        case "int32":
            return random.choice((0, 1, -1, 127, 128, 300, 2**31 - 1, -(2**31)))
        case "int64":
            return random.choice((0, 1, -1, 2**31, 2**63 - 1, -(2**63)))
        case "float":
            return random.choice((0.0, 1.5, -2.25, 1e300, 5e-324))
        case "quantity":
            return random.choice(("0", "1", "100m", "1Gi", "-5", "1e9", "9223372036854775807"))
        case "time":
            return random.choice(("1970-01-01T00:00:00Z", "2026-01-02T03:04:05Z", "1969-12-31T23:59:59Z"))
        case "microtime":
            return random.choice(("2026-01-02T03:04:05.678901Z", "1970-01-01T00:00:00.000000Z"))
        case "intstr":
            return random.choice((0, -3, 8080, "http", "", "50%"))
        case "raw" | "any":
            return random.choice(_JSON)
        case "strings":
            return [random.choice(_WORDS) for _ in range(random.randint(1, 2))]
    other = {"or_array": [{"type": "string"}], "or_bool": random.random() < 0.5, "or_strings": ["a", ""]}[kind]
    return random.choice((_message(random, _SCHEMA, depth) if depth > 0 else {}, other))
