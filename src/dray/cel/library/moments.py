"""Timestamps and durations: reading, writing, and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from dray.cel.declarations import Library
from dray.cel.errors import EvaluationError, no_such_overload
from dray.cel.operators import checked_duration, checked_timestamp
from dray.cel.values import Duration, Timestamp, Value

LIBRARY: Final = Library("moments")

_SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,18}))?(?:([Zz])|([+-])(\d\d):(\d\d))", re.ASCII
)
_DURATION = re.compile(r"[+-]?(?:0|(?:[0-9]*\.?[0-9]*(?:ns|us|µs|μs|ms|s|m|h))+)")
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


def parse_timestamp(text: str) -> Timestamp:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise EvaluationError(f"invalid timestamp {text[:64]!r}")
    *fields, fraction, _, sign, hours, minutes = match.groups()
    try:
        moment = datetime(*(int(field) for field in fields), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        raise EvaluationError(f"invalid timestamp {text[:64]!r}") from None
    offset = (int(hours) * 3600 + int(minutes) * 60) * (-1 if sign == "-" else 1) if sign else 0
    span = moment - _EPOCH
    seconds = span.days * 86400 + span.seconds - offset
    return checked_timestamp(seconds * _SECOND + int(((fraction or "") + "0" * 9)[:9]))


def parse_duration(text: str) -> Duration:
    if len(text) > 256 or _DURATION.fullmatch(text) is None:
        raise EvaluationError(f"invalid duration {text[:64]!r}")
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        if not whole and not fraction:
            raise EvaluationError(f"invalid duration {text[:64]!r}")
        total += int(whole or 0) * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
    return checked_duration(-total if text.startswith("-") else total)


def format_duration(value: Duration) -> str:
    seconds, nanos = divmod(abs(value.nanos), _SECOND)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{'-' if value.nanos < 0 else ''}{seconds}{fraction}s"


def format_timestamp(value: Timestamp) -> str:
    seconds, nanos = divmod(value.nanos, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def to_timestamp(value: Value) -> Timestamp:
    if type(value) is str:
        return parse_timestamp(value)
    if type(value) is int:
        return checked_timestamp(value * _SECOND)
    if type(value) is Timestamp:
        return value
    raise no_such_overload("timestamp")


def to_duration(value: Value) -> Duration:
    if type(value) is str:
        return parse_duration(value)
    if type(value) is int:
        return Duration(value)
    if type(value) is Duration:
        return value
    raise no_such_overload("duration")


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        sign, hours, minutes = match.groups()
        span = timedelta(hours=int(hours), minutes=int(minutes))
        try:
            return timezone(-span if sign == "-" else span)
        except ValueError:
            raise EvaluationError(f"unknown time zone {name}") from None
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name[:128])
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name[:64]}") from None


def _local(value: Timestamp, zone: Value) -> datetime:
    if type(zone) is not str:
        raise no_such_overload("timestamp accessor")
    moment = _EPOCH + timedelta(0, value.nanos // _SECOND)
    try:
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _accessor(name: str, of_moment: Callable[[datetime], int], per_unit: int | None = None) -> Callable[..., int]:
    def access(value: Value, *zone: Value) -> int:
        if type(value) is Timestamp:
            return of_moment(_local(value, zone[0] if zone else "UTC"))
        if type(value) is Duration and per_unit is not None and not zone:
            return int(abs(value.nanos) // per_unit) * (-1 if value.nanos < 0 else 1)
        raise no_such_overload(name)

    return access


def _milliseconds(value: Value, *zone: Value) -> int:
    if type(value) is Timestamp:
        _local(value, zone[0] if zone else "UTC")
        return int(value.nanos % _SECOND // 10**6)
    if type(value) is Duration and not zone:
        return int(abs(value.nanos) % _SECOND // 10**6) * (-1 if value.nanos < 0 else 1)
    raise no_such_overload("getMilliseconds")


_ACCESSORS: Final = {
    "getFullYear": ("timestamp_to_year", _accessor("getFullYear", lambda m: m.year)),
    "getMonth": ("timestamp_to_month", _accessor("getMonth", lambda m: m.month - 1)),
    "getDate": ("timestamp_to_day_of_month_1_based", _accessor("getDate", lambda m: m.day)),
    "getDayOfMonth": ("timestamp_to_day_of_month", _accessor("getDayOfMonth", lambda m: m.day - 1)),
    "getDayOfYear": ("timestamp_to_day_of_year", _accessor("getDayOfYear", lambda m: m.timetuple().tm_yday - 1)),
    "getDayOfWeek": ("timestamp_to_day_of_week", _accessor("getDayOfWeek", lambda m: m.isoweekday() % 7)),
    "getHours": ("timestamp_to_hours", _accessor("getHours", lambda m: m.hour, 3600 * _SECOND)),
    "getMinutes": ("timestamp_to_minutes", _accessor("getMinutes", lambda m: m.minute, 60 * _SECOND)),
    "getSeconds": ("timestamp_to_seconds", _accessor("getSeconds", lambda m: m.second, _SECOND)),
    "getMilliseconds": ("timestamp_to_milliseconds", _milliseconds),
}
for _name, (_overload, _implementation) in _ACCESSORS.items():
    _signatures = [f"{_overload}: timestamp.() -> int", f"{_overload}_with_tz: timestamp.(string) -> int"]
    if _overload.rpartition("_")[2] in ("hours", "minutes", "seconds", "milliseconds"):
        _signatures.append(f"{_overload.replace('timestamp', 'duration')}: duration.() -> int")
    LIBRARY.function(_name, _implementation, *_signatures)
LIBRARY.function(
    "timestamp",
    to_timestamp,
    "timestamp_to_timestamp: (timestamp) -> timestamp",
    "string_to_timestamp: (string) -> timestamp",
    "int64_to_timestamp: (int) -> timestamp",
)
LIBRARY.function(
    "duration",
    to_duration,
    "duration_to_duration: (duration) -> duration",
    "string_to_duration: (string) -> duration",
    "int64_to_duration: (int) -> duration",
)
