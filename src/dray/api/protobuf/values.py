"""Values that are messages in protobuf and something else than an object in JSON: times, quantities, JSON itself.

Each has the members of its message, and the ways from the JSON value to those members and back. What has a zero of its
own (a time that is not set) is None in JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from dray.api.objects import Object
from dray.api.protobuf.layout import Member
from dray.api.protobuf.wire import WireError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = "apiextensions_v1.JSONSchemaProps"


class Value(NamedTuple):
    members: tuple[Member, ...]
    to_members: Callable[[Any], Object]
    from_members: Callable[[Object], Any]
    # Whether it is short text, which repeats.
    short: bool = False


def _from_time(text: str) -> Object:
    passed = datetime.fromisoformat(text) - _EPOCH
    return {"seconds": passed.days * 86400 + passed.seconds, "nanos": passed.microseconds * 1000}


def _to_time(timespec: str) -> Callable[[Object], str | None]:
    def to_time(members: Object) -> str | None:
        if not members:
            return None
        # A time has seconds only, also where a client sent more.
        micros = int(members.get("nanos", 0) / 1000) if timespec == "microseconds" else 0
        try:
            moment = _EPOCH + timedelta(seconds=members.get("seconds", 0), microseconds=micros)
        except OverflowError as error:
            raise WireError("the time is out of range") from error
        return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

    return to_time


def _from_int_or_string(value: int | str) -> Object:
    if isinstance(value, str):
        return {"type": 1, "intVal": 0, "strVal": value}
    return {"type": 0, "intVal": value, "strVal": ""}


def _to_int_or_string(members: Object) -> int | str:
    found: int | str = members.get("strVal", "") if members.get("type") else members.get("intVal", 0)
    return found


def _from_json(value: Any) -> Object:
    return {} if value is None else {"raw": msgspec.json.encode(value)}


def _to_json(members: Object) -> Any:
    raw = members.get("raw")
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise WireError("a member that holds JSON as bytes does not hold JSON") from error


def _from_schema_or(value: Any) -> Object:
    if isinstance(value, bool):
        return {"allows": value}
    return {"schema": value, "allows": True} if isinstance(value, dict) else {"items": value}


def _to_schema_or(members: Object) -> Any:
    return members.get("items") or members.get("schema", members.get("allows"))


def _to_schema_or_bool(members: Object) -> Any:
    return members.get("schema", members.get("allows", False))


_MOMENT = (Member(1, "seconds", type="int64", keep=True), Member(2, "nanos", type="int32", keep=True))
_OR_SCHEMA = Member(1, "schema", type=_SCHEMA)

VALUES: dict[str, Value] = {
    "time": Value(_MOMENT, _from_time, _to_time("seconds"), short=True),
    "microtime": Value(_MOMENT, _from_time, _to_time("microseconds"), short=True),
    "quantity": Value(
        (Member(1, "string", type="str", keep=True),),
        lambda text: {"string": text},
        lambda members: members.get("string", "0"),
        short=True,
    ),
    "intstr": Value(
        (Member(1, "type", type="int64"), Member(2, "intVal", type="int32"), Member(3, "strVal", type="str")),
        _from_int_or_string,
        _to_int_or_string,
    ),
    "raw": Value((Member(1, "raw", type="octets"),), _from_json, _to_json),
    "any": Value((Member(1, "raw", type="octets"),), _from_json, _to_json),
    "strings": Value(
        (Member(1, "items", repeated=True, type="str"),),
        lambda items: {"items": items},
        lambda members: members.get("items", []),
    ),
    "or_array": Value((_OR_SCHEMA, Member(2, "items", repeated=True, type=_SCHEMA)), _from_schema_or, _to_schema_or),
    "or_bool": Value(
        (Member(1, "allows", type="bool", keep=True), Member(2, "schema", type=_SCHEMA)),
        _from_schema_or,
        _to_schema_or_bool,
    ),
    "or_strings": Value((_OR_SCHEMA, Member(2, "items", repeated=True, type="str")), _from_schema_or, _to_schema_or),
}
