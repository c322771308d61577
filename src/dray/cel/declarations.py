"""How libraries declare functions: a line of text per overload, and what implements, costs and sizes it.

`"starts_with_string: string.(string) -> bool"` is the overload `starts_with_string`, a method of string. Types are
written as `list<A>`, `map<K,V>`, `optional<A>`, `type<A>`; single capital letters are type parameters.
An implementation gets the operands in order (the receiver first), tells their types apart itself and raises
EvaluationError when it has no overload for them. The functions of a `Library` are merged by name in an environment.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from dray.cel import types as t
from dray.cel.types import Type

Implementation = Callable[..., Any]

_NAMES = {
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "null": t.NULL,
    "dyn": t.DYN,
    "duration": t.DURATION,
    "timestamp": t.TIMESTAMP,
    "Quantity": t.QUANTITY,
    "Semver": t.SEMVER,
    "URL": t.URL,
    "IP": t.IP,
    "CIDR": t.CIDR,
    "Format": t.FORMAT,
    "Authorizer": t.AUTHORIZER,
    "PathCheck": t.PATH_CHECK,
    "GroupCheck": t.GROUP_CHECK,
    "ResourceCheck": t.RESOURCE_CHECK,
    "Decision": t.DECISION,
}
_CONSTRUCTORS: dict[str, Callable[..., Type]] = {
    "list": t.list_of,
    "map": t.map_of,
    "optional": t.optional_of,
    "type": t.type_of,
}
_PARAMS = {letter: t.param(letter) for letter in "ABKVTU"}
_SIGNATURE = re.compile(r"\s*(\S+):\s*(?:([^()]+)\.)?\((.*)\)\s*->\s*(.+)")


class Overload(NamedTuple):
    id: str
    member: bool
    params: tuple[Type, ...]
    """The types of all operands, the receiver first."""
    result: Type
    generic: bool


class Function:
    """Immutable. Its signatures are read when they are first asked for: few expressions use many functions."""

    def __init__(self, name: str, implementation: Implementation, signatures: tuple[str, ...]) -> None:
        self.name = name
        self.implementation = implementation
        self.signatures = signatures

    @cached_property
    def overloads(self) -> tuple[Overload, ...]:
        return tuple([parse_overload(signature) for signature in self.signatures])


@dataclass(slots=True)
class Library:
    """A named set of functions, filled by the module that implements them."""

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, Type] = field(default_factory=dict)
    """Names of types that may be used as values."""

    def function(self, name: str, implementation: Implementation, *signatures: str) -> None:
        self.functions[name] = Function(name, implementation, signatures)


def parse_overload(signature: str) -> Overload:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(f"cannot read signature {signature!r}")
    identifier, receiver, arguments, result = match.groups()
    params = [parse_type(part) for part in _split(arguments)]
    if receiver:
        params.insert(0, parse_type(receiver))
    result_type = parse_type(result)
    generic = result_type.generic or any(p.generic for p in params)
    return Overload(identifier, receiver is not None, tuple(params), result_type, generic)


def parse_type(text: str) -> Type:
    text = text.strip()
    if text in _NAMES:
        return _NAMES[text]
    if text in _PARAMS:
        return _PARAMS[text]
    name, _, rest = text.partition("<")
    return _CONSTRUCTORS[name](*[parse_type(part) for part in _split(rest[:-1])])


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current.strip() else parts
