"""What the rules of a custom kind may cost, estimated from the sizes that its schema allows.

A list without maxItems, a map without maxProperties and a text without maxLength are as large as a request may be. A
rule is asked once for every place that its part of the schema may have in an object. What nothing is known of counts
as little: a rule is refused only where the schema itself allows too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.api import errors
from dray.api.errors import FieldError
from dray.cel.errors import CompileError
from dray.cel.estimate import Declared, estimate_cost
from dray.cel.estimate_calls import FIXED_ONE
from dray.server.custom.definitions import Schema
from dray.server.custom.rules import RuleNode

MOST: Final = 10_000_000
MOST_IN_ALL: Final = 100_000_000
_REQUEST: Final = 3 * 1024 * 1024
_TEXT: Final = Declared(_REQUEST - 2, kind="string")
_SCALAR: Final = Declared(1, kind="int")
# Kubernetes counts operations on the key of a map as of constant cost.
_KEY: Final = Declared(0, kind="string")
# Longest name, and longest generateName: a suffix of at least one letter is added.
_NAMES: Final = {"name": 253, "generateName": 252}
_BY_FORMAT: Final = {"duration": 32, "date": 12, "date-time": 39}
_SHORTEST: Final = {"array": 2, "boolean": 4, "integer": 1, "number": 1, "object": 2, "string": 2}


def check_cost(root: RuleNode) -> Iterator[FieldError]:
    """Yields an error for each rule that may cost too much, alone or together with the others."""
    costs = list(_costs(root, 1))
    for at, cost in costs:
        if cost > MOST:
            yield errors.forbidden(at, _exceeds("estimated rule cost", cost, MOST))
    total = sum(cost for _, cost in costs)
    if total > MOST_IN_ALL:
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield errors.forbidden(root.path, _exceeds(what, total, MOST_IN_ALL))


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, and "
        "maxLength where arrays, maps, and strings are declared)"
    )


def _costs(node: RuleNode, places: int | None) -> Iterator[tuple[str, int]]:
    """Yields the cost of each rule of a node and below it, with the path of the rule.

    `places` is how many values the node may have in an object; None if that is not limited.
    """
    schema = node.schema
    own = _declared(schema, is_root=node.is_resource)
    times = places if places is not None else (_REQUEST - 2) // (_shortest(schema) + 1)
    for index, rule in enumerate(node.rules):
        try:
            root = rule.program().root
        except CompileError:
            continue
        cost = estimate_cost(root, declared={"self": own, "oldSelf": own}, unknown=FIXED_ONE)
        yield f"{node.path}.x-kubernetes-validations[{index}].rule", cost * times
    for member in node.members.values():
        yield from _costs(member, places)
    for inner, limit in ((node.items, "maxItems"), (node.others, "maxProperties")):
        if inner is not None:
            most = schema.get(limit)
            yield from _costs(inner, places * most if places is not None and most is not None else None)


def _declared(schema: Schema, *, is_root: bool = False) -> Declared:
    """Returns the sizes of the values that a schema allows."""
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
            return Declared(most, key=_KEY, element=_declared(others), kind="map")
        fields = {name: _declared(member) for name, member in (schema.get("properties") or {}).items()}
        if is_root or schema.get("x-kubernetes-embedded-resource"):
            fields = {**fields, "kind": _TEXT, "apiVersion": _TEXT, "metadata": _metadata(schema)}
        return Declared(1, fields=fields, kind="object")
    return Declared(_longest(schema), kind="string") if kind == "string" else _SCALAR


def _metadata(schema: Schema) -> Declared:
    """Returns the sizes of the metadata: rules can read only the names, which the schema may shorten."""
    given = ((schema.get("properties") or {}).get("metadata") or {}).get("properties") or {}
    lengths = {name: min(most, (given.get(name) or {}).get("maxLength", most)) for name, most in _NAMES.items()}
    fields = {name: Declared(_longest({"maxLength": length}), kind="string") for name, length in lengths.items()}
    return Declared(1, fields=fields, kind="object")


def _longest(schema: Schema) -> int:
    if schema.get("maxLength") is not None:
        # A character may take four bytes.
        return int(schema["maxLength"]) * (1 if schema.get("format") == "byte" else 4)
    words: list[Any] = schema.get("enum") or []
    if words:
        return max(len(word) for word in words if isinstance(word, str)) if any(map(_is_text, words)) else 1
    return _BY_FORMAT.get(schema.get("format") or "", _REQUEST - 2)


def _is_text(word: Any) -> bool:
    return isinstance(word, str)


def _shortest(schema: Schema) -> int:
    """Returns the least number of bytes of a value in a request."""
    least = _SHORTEST.get(schema.get("type") or "", 1)
    members = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name in members and members[name].get("default") is None:
            least += len(name) + _shortest(members[name]) + 4
    return least
