"""Wire types: every type of the Kubernetes API, its fields in JSON and their numbers in protobuf.

The table is generated (wire_fields.txt). A type is written `name=1!str name=...`, and a field has
- its number in protobuf, 0 for one that protobuf leaves to the envelope; `2/3` is field 3 of the message in field 2,
  where JSON has the members of that message in its place;
- marks: `!` means that the field is always written in JSON, `*` that its zero is kept or, after `!`, that an absent
  one is written as null;
- a type: str, bytes, int32, int64, bool, float, quantity, time, microtime, intstr, raw and any (any JSON, kept as it
  is), strings (a list that is a message of its own), or_array, or_bool, or_strings (a JSON schema or something else),
  `module.Type`, `[]` + type or `{}` + type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dray.api.wire_fields import FIELDS, MODULES

_FIELD = re.compile(r"(\S+?)=([\d/]+)([!*]*)(\S+)")
# What a type is in JSON, where protobuf makes more of it.
_IN_JSON = {"strings": "[]str", "or_array": "any", "or_bool": "any", "or_strings": "any"}


class Field(NamedTuple):
    name: str
    # The numbers that lead to it; more than one for a member of an inlined message.
    numbers: tuple[int, ...]
    marks: str
    type: str


def fields(type_name: str) -> list[Field]:
    found = _FIELD.findall(FIELDS[type_name])
    return [Field(name, tuple(map(int, at.split("/"))), marks, kind) for name, at, marks, kind in found]


class _Types(Mapping[str, dict[str, str]]):
    """Maps each type to its JSON fields with marks and type; loaded on first use."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, str]] = {}

    def __getitem__(self, type_name: str) -> dict[str, str]:
        found = self._read.get(type_name)
        if found is None:
            found = {field.name: field.marks + _in_json(field.type) for field in fields(type_name)}
            self._read[type_name] = found
        return found

    def __contains__(self, type_name: object) -> bool:
        return type_name in FIELDS

    def __iter__(self) -> Iterator[str]:
        return iter(FIELDS)

    def __len__(self) -> int:
        return len(FIELDS)


def _in_json(kind: str) -> str:
    outer = kind[:2] if kind[0] in "[{" else ""
    base = kind.removeprefix(outer)
    return outer + _IN_JSON.get(base, base)


TYPES: Final[Mapping[str, dict[str, str]]] = _Types()


def type_of(api_version: str, kind: str) -> str | None:
    """The type of a kind; None for one that is not built in.

    Options and answers (Status) belong to every version, DeleteOptions also to those of custom kinds.
    """
    module = MODULES.get(api_version)
    candidates = [f"{module}.{kind}"] if module is not None else []
    if module is not None or kind == "DeleteOptions":
        candidates.append(f"meta_v1.{kind}")
    return next((candidate for candidate in candidates if "kind=0str" in FIELDS.get(candidate, "")), None)
