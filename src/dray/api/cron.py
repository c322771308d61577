"""Cron schedules: five fields or a descriptor, read as Kubernetes reads them, and the moments at which they are due.

Fields are minute, hour, day of month, month and day of week; each is a list of `*`, numbers, names, ranges and steps.
Descriptors are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and @every with a duration. Where both
days are restricted, either of them will do.

Hours are walked in absolute time: those that a change of clocks repeats come twice, those that it skips not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# A schedule that is not due within this time, as one for the 30th of February, never is.
_HORIZON: Final = timedelta(days=5 * 366)
# Close to where calendars end.
_LAST_YEAR: Final = 9900
_LONGEST_TEXT: Final = 4096
_MONTHS: Final = {
    name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)
}
_DAYS: Final = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{0,9})?)(h|ms|m|s|us|µs|ns)", re.ASCII)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", re.ASCII)


class Schedule(Protocol):
    def next(self, since: datetime) -> datetime | None:
        """Returns the next due time after `since`; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """@every: so many seconds after the moment, which is cut to whole seconds."""

    seconds: int

    def next(self, since: datetime) -> datetime | None:
        return None if since.year >= _LAST_YEAR else since.replace(microsecond=0) + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Field:
    values: frozenset[int]
    # Written as `*` or `?`.
    is_open: bool


@dataclass(frozen=True, slots=True)
class Calendar:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field
    zone: tzinfo = UTC

    def next(self, since: datetime) -> datetime | None:
        if since.year >= _LAST_YEAR:
            return None
        moment = since.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = moment + _HORIZON
        while moment < end:
            local = moment.astimezone(self.zone)
            if local.month not in self.month.values:
                first = local.replace(day=1, hour=0, minute=0, fold=0)
                moment = _later(moment, (first + timedelta(days=32)).replace(day=1))
            elif not self._has_day(local):
                moment = _later(moment, local.replace(hour=0, minute=0, fold=0) + timedelta(days=1))
            elif local.hour not in self.hour.values:
                moment += timedelta(minutes=60 - local.minute)
            elif local.minute not in self.minute.values:
                moment += timedelta(minutes=1)
            else:
                return moment
        return None

    def _has_day(self, local: datetime) -> bool:
        matches = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        return all(matches) if self.day.is_open or self.weekday.is_open else any(matches)


def _later(moment: datetime, local: datetime) -> datetime:
    """Never back: an hour that the clocks skip may lie before it."""
    return max(local.astimezone(UTC), moment + timedelta(minutes=1))


def find_zone(name: str) -> tzinfo:
    """Returns the time zone with this IANA name. Raises ValueError."""
    if not _ZONE.fullmatch(name):
        raise ValueError(f"unknown time zone {name}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name}") from None


def parse(text: str, zone: tzinfo = UTC) -> Schedule:
    """Raises ValueError. A schedule may begin with its own time zone, `CRON_TZ=Asia/Tokyo `."""
    if not text:
        raise ValueError("empty spec string")
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"longer than {_LONGEST_TEXT} characters")
    if text.startswith(("TZ=", "CRON_TZ=")):
        place, _, text = text.partition("=")[2].partition(" ")
        try:
            zone = find_zone(place)
        except ValueError as error:
            raise ValueError(f"provided bad location {place}: {error}") from None
        text = text.strip()
    if text.startswith("@every "):
        return Interval(_duration(text.removeprefix("@every "), text))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minute, hour, day, month, weekday = fields
    return Calendar(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTHS),
        _field(weekday, 0, 6, _DAYS),
        zone,
    )


def _duration(text: str, whole: str) -> int:
    position, seconds = 0, 0.0
    while position < len(text):
        match = _DURATION.match(text, position)
        if match is None:
            break
        seconds += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if position < len(text) or not text:
        raise ValueError(f'failed to parse duration {whole}: time: invalid duration "{text}"')
    return max(1, min(int(seconds), 2**31))


def _field(text: str, least: int, most: int, names: Mapping[str, int] | None = None) -> Field:
    values: set[int] = set()
    is_open = False
    for part in filter(None, text.split(",")):
        found, opens = _range(part, least, most, names or {})
        values.update(found)
        is_open = is_open or opens
    return Field(frozenset(values), is_open)


def _range(text: str, least: int, most: int, names: Mapping[str, int]) -> tuple[range, bool]:
    ends, *steps = text.split("/")
    bounds = ends.split("-")
    is_open = bounds[0] in ("*", "?")
    if is_open:
        first, last = least, most
    elif len(bounds) <= 2:
        first = _number(bounds[0], names)
        last = _number(bounds[-1], names) if len(bounds) == 2 or not steps else most
    if len(bounds) > 2:
        raise ValueError(f"too many hyphens: {text}")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if first < least:
        raise ValueError(f"beginning of range ({first}) below minimum ({least}): {text}")
    if last > most:
        raise ValueError(f"end of range ({last}) above maximum ({most}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(first, last + 1, step), is_open and step == 1


def _number(text: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if re.fullmatch(r"-\d{1,9}", text, re.ASCII):
        raise ValueError(f"negative number ({text}) not allowed: {text}")
    if not re.fullmatch(r"\+?\d{1,9}", text, re.ASCII):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
