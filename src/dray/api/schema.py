"""The structural schema: is this a well-formed object of its type, and how would Kubernetes write it down?

`read` walks a decoded document once. It reports unknown fields and wrong types, and returns the document with nulls
gone, members that are always written present, and quantities and times in canonical form. Empty lists and maps stay:
some rules ask whether they were given. `write` gives the form that is stored and answered, where they are absent, or
null in a member that is always written. Types come from wire_types.py.

Each type is compiled on first use to a reader `(value, problems) -> value`. A reader reports problems relative to
itself; the enclosing reader puts its own step in front when, rarely, there are any. So a good document pays nothing
for paths.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

from dray.api.caches import LONGEST, remember
from dray.api.errors import ErrorType, FieldError
from dray.api.quantity import INT64_MAX, INT64_MIN, Quantity, QuantityError
from dray.api.wire_types import TYPES

MAX_RAW_DEPTH = 256

# (path relative to the reader, type, detail)
Problem = tuple[str, ErrorType, str]
Reader = Callable[[Any, list[Problem]], Any]
Zero = Callable[[], Any]
# (accepted as it is when of this type, reader, zero value is kept)
_Field = tuple[type | None, Reader, bool]


def read(document: dict[str, Any], type_name: str) -> tuple[dict[str, Any], list[FieldError]]:
    """Returns the document in canonical form, and its structural errors."""
    problems: list[Problem] = []
    try:
        value = _reader(type_name, prune=False)(document, problems)
    except RecursionError:
        value, problems = {}, [("", ErrorType.WRONG_TYPE, "nested too deeply")]
    return value, [FieldError(kind, path.removeprefix("."), detail) for path, kind, detail in problems]


def write(document: dict[str, Any], type_name: str) -> dict[str, Any]:
    """The document as an API server writes it: without empty members, with those that are always there."""
    written: dict[str, Any] = _reader(type_name, prune=True)(document, [])
    return written


def written(document: dict[str, Any], type_name: str) -> dict[str, Any]:
    """`write` for a document that `read` gave: members that hold nothing empty are in that form already."""
    if not _holds_empty(document):
        return document
    unwritten = {name: value for name, value in document.items() if _holds_empty(value)}
    new = write(unwritten, type_name)
    return {
        name: new[name] if name in unwritten else value
        for name, value in document.items()
        if name not in unwritten or name in new
    }


def _holds_empty(value: Any) -> bool:
    import msgspec

    encoded = msgspec.json.encode(value)
    return b"[]" in encoded or b"{}" in encoded


@cache
def _reader(type_name: str, *, prune: bool) -> Reader:
    if type_name.startswith("[]"):
        return _list_reader(type_name[2:], prune=prune)
    if type_name.startswith("{}"):
        return _map_reader(type_name[2:], prune=prune)
    return _SCALARS.get(type_name) or _struct_reader(TYPES[type_name], prune=prune)


@cache
def _zero(type_name: str) -> Zero:
    """Makes what stands for an absent value of a type that is always written."""
    if type_name[0] in "[{":
        return lambda: None
    if type_name in _ZEROS:
        value = _ZEROS[type_name]
        return lambda: value
    always = _always(TYPES.get(type_name, {}))
    return lambda: {name: zero() for name, zero in always}


def _always(fields: dict[str, str]) -> list[tuple[str, Zero]]:
    return [(name, _zero(mark[1:]) if mark[1] != "*" else _nothing) for name, mark in fields.items() if mark[0] == "!"]


def _nothing() -> None:
    return None


def _prefix(problems: list[Problem], start: int, step: str) -> None:
    for index in range(start, len(problems)):
        path, kind, detail = problems[index]
        problems[index] = (step + path, kind, detail)


def _wrong(problems: list[Problem], value: Any, expected: str) -> None:
    problems.append(("", ErrorType.WRONG_TYPE, f"expected {expected}, found {describe(value)}"))


def describe(value: Any) -> str:
    """The kind of value, as it stands in a message about a wrong one."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    name = names.get(type(value), "null")
    return f"{name} ({str(value)[:40]})" if type(value) in (str, int, float) else name


def _struct_reader(wire: dict[str, str], *, prune: bool) -> Reader:
    # A type may contain itself, so the fields are filled in after the reader exists.
    fields: dict[str, _Field] = {}
    always: list[tuple[str, Zero]] = []
    compiled = False

    def compile_fields() -> None:
        nonlocal compiled
        compiled = True
        for name, mark in wire.items():
            base = mark.lstrip("!*")
            optional = base in _OMIT_ZERO or (prune and base[0] in "[{")
            fields[name] = (_PLAIN.get(base), _reader(base, prune=prune), mark[0] in "!*" or not optional)
        always.extend(_always(wire))

    def read_struct(value: Any, problems: list[Problem]) -> Any:
        if not compiled:
            compile_fields()
        if type(value) is not dict:
            _wrong(problems, value, "an object")
            return {}
        result = {}
        # A list that is empty is not asked for its length: that is asked of every member of every object.
        known = len(problems) if problems else 0
        for key, item in value.items():
            try:
                expected, reader, keep = fields[key]
            except KeyError:
                problems.append((f".{key}", ErrorType.UNKNOWN_FIELD, f'unknown field "{key}"'))
                known = len(problems)
                continue
            if type(item) is not expected:
                if item is None:
                    continue
                item = reader(item, problems)
                if problems and len(problems) > known:
                    _prefix(problems, known, f".{key}")
                    known = len(problems)
            if item or (keep and not (prune and item == [])):
                result[key] = item
        for key, zero in always:
            if key not in result:
                result[key] = zero()
        return result

    return read_struct


def _list_reader(item_type: str, *, prune: bool) -> Reader:
    reader = _reader(item_type, prune=prune)
    zero = _zero(item_type)

    def read_list(value: Any, problems: list[Problem]) -> Any:
        if type(value) is not list:
            _wrong(problems, value, "a list")
            return []
        result = []
        known = len(problems) if problems else 0
        for item in value:
            result.append(reader(item, problems) if item is not None else zero())
            if problems and len(problems) > known:
                _prefix(problems, known, f"[{len(result) - 1}]")
                known = len(problems)
        return result

    return read_list


def _map_reader(value_type: str, *, prune: bool) -> Reader:
    reader = _reader(value_type, prune=prune)
    zero = _zero(value_type)
    lone, asked = _lone_members(TYPES.get(value_type, {}))

    def read_map(value: Any, problems: list[Problem]) -> Any:
        if type(value) is not dict:
            _wrong(problems, value, "an object")
            return {}
        result = value.copy()
        for key, item in value.items():
            if type(item) is dict and len(item) == 1:
                (name,) = item
                inner = item[name]
                if lone.get(name) is type(inner) and (name not in asked or asked[name](inner)):
                    continue
            known = len(problems)
            result[key] = reader(item, problems) if item is not None else zero()
            if len(problems) > known:
                _prefix(problems, known, f"[{key}]")
        return result

    return read_map


def _lone_members(wire: dict[str, str]) -> tuple[dict[str, type], dict[str, Callable[[Any], bool]]]:
    """Members with which, alone and of the given type, a struct is fine as it is; some only if their value is, too.

    Devices have maps of small structs, a thousand to a slice, nearly all with a single member: those are taken over
    instead of built anew.
    """
    always = {name for name, mark in wire.items() if mark[0] == "!"}
    marked = {name: mark.lstrip("!*") for name, mark in wire.items() if mark[0] in "!*" and always <= {name}}
    lone = {name: _AS_IS[base] for name, base in marked.items() if base in _AS_IS}
    return lone, {name: _ASKED[marked[name]] for name in lone if marked[name] in _ASKED}


def _plain_reader(expected: type, name: str) -> Reader:
    def read_plain(value: Any, problems: list[Problem]) -> Any:
        if type(value) is not expected:
            _wrong(problems, value, name)
        return value

    return read_plain


def _integer_reader(low: int, high: int, name: str) -> Reader:
    def read_integer(value: Any, problems: list[Problem]) -> Any:
        if type(value) is not int or not low <= value <= high:
            _wrong(problems, value, name)
        return value

    return read_integer


def _read_float(value: Any, problems: list[Problem]) -> Any:
    if type(value) not in (int, float):
        _wrong(problems, value, "a number")
    return value


def _read_as_is(value: Any, problems: list[Problem]) -> Any:
    """Any JSON. All else that reads it may recurse, so here it ends how deep it may go."""
    level = [value]
    for _ in range(MAX_RAW_DEPTH):
        level = [
            inner
            for outer in level
            if type(outer) in (dict, list)
            for inner in (outer.values() if type(outer) is dict else outer)
        ]
        if not level:
            return value
    _wrong(problems, value, f"at most {MAX_RAW_DEPTH} levels of nesting")
    return None


@remember(4096)
def _canonical_quantity(text: str) -> str | None:
    try:
        return str(Quantity.parse(text.strip()))
    except QuantityError:
        return None


@remember(4096)
def _is_canonical_quantity(text: str) -> bool:
    return _canonical_quantity(text) == text


def _is_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def _read_quantity(value: Any, problems: list[Problem]) -> Any:
    if type(value) is str and (text := _canonical_quantity(value)) is not None:
        return text
    if type(value) in (str, int, float):
        try:
            return str(Quantity.parse(str(value).strip()))
        except QuantityError as error:
            problems.append(("", ErrorType.WRONG_TYPE, str(error)))
            return "0"
    _wrong(problems, value, "a quantity")
    return "0"


def _read_int_or_string(value: Any, problems: list[Problem]) -> Any:
    if type(value) not in (int, str):
        _wrong(problems, value, "a number or a string")
    return value


def _read_bytes(value: Any, problems: list[Problem]) -> Any:
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, TypeError, ValueError):
        _wrong(problems, value, "base64 text")
    return value


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _time(text: str, timespec: str) -> str | None:
    return _short_time(text, timespec) if len(text) <= LONGEST else _canonical_time(text, timespec)


@lru_cache(maxsize=4096)
def _short_time(text: str, timespec: str) -> str | None:
    return _canonical_time(text, timespec)


def _canonical_time(text: str, timespec: str) -> str | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _time_reader(timespec: str) -> Reader:
    def read_time(value: Any, problems: list[Problem]) -> Any:
        if type(value) is str and (text := _time(value, timespec)) is not None:
            return text
        _wrong(problems, value, "a time as in 2006-01-02T15:04:05Z")
        return None

    return read_time


_PLAIN: dict[str, type] = {"str": str, "bool": bool}
_AS_IS: dict[str, type] = {**_PLAIN, "int64": int, "quantity": str}
_ASKED: dict[str, Callable[[Any], bool]] = {"int64": _is_int64, "quantity": _is_canonical_quantity}
_OMIT_ZERO = frozenset({"str", "bytes", "int32", "int64", "bool", "float"})
_ZEROS: dict[str, Any] = {
    "str": "",
    "bytes": None,
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float": 0,
    "quantity": "0",
    "time": None,
    "microtime": None,
    "intstr": 0,
    "raw": None,
    "any": None,
}
_SCALARS: dict[str, Reader] = {
    "str": _plain_reader(str, "a string"),
    "bytes": _read_bytes,
    "bool": _plain_reader(bool, "a boolean"),
    "int32": _integer_reader(-(2**31), 2**31 - 1, "a whole number of 32 bits"),
    "int64": _integer_reader(INT64_MIN, INT64_MAX, "a whole number of 64 bits"),
    "float": _read_float,
    "quantity": _read_quantity,
    "time": _time_reader("seconds"),
    "microtime": _time_reader("microseconds"),
    "intstr": _read_int_or_string,
    "raw": _read_as_is,
    "any": _read_as_is,
}
