"""Messages about configuration that cannot be decoded: a wrong value of an enumeration comes with the right ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.inspect import LiteralType, StructType, Type, UnionType, type_info

# As msgspec words it.
_ENUM: Final = re.compile(r"(Invalid enum value .*)( - at `\$\.?(.*)`)")


def explained(error: Exception, decoded: type[msgspec.Struct]) -> str:
    """Returns the message of an error that decoding into this type raised."""
    found = _ENUM.fullmatch(str(error))
    if found is None:
        return str(error)
    values = [str(value) for kind in _below(type_info(decoded), found[3].split(".")) for value in _values(kind)]
    return f"{found[1]}; there are {', '.join(values)}{found[2]}" if values else str(error)


def _below(kind: Type, path: list[str]) -> Iterator[Type]:
    for member in _members(kind):
        if not path:
            yield member
        elif isinstance(member, StructType):
            for field in member.fields:
                if field.encode_name == path[0]:
                    yield from _below(field.type, path[1:])


def _members(kind: Type) -> tuple[Type, ...]:
    return kind.types if isinstance(kind, UnionType) else (kind,)


def _values(kind: Type) -> tuple[object, ...]:
    return kind.values if isinstance(kind, LiteralType) else ()
