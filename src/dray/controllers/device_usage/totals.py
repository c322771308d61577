"""Totals of device time by hour, and by day after two days; bounded, and stored as the data of a ConfigMap. Pure.

A key of the data is an hour, `2026-11-18T03`, or a day, `2026-11-18`, in UTC. Its value is a list in JSON with an
entry for each namespace, user, queue and class: these four and the seconds. `until` is the moment up to which time has
been added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

UNTIL: Final = "until"
CONFIG_MAP: Final = "dray-usage"
NAMESPACE: Final = "kube-system"
OTHERS: Final = "(others)"
_HOUR: Final = 3600
_HOURLY: Final = 48 * _HOUR
_LONGEST: Final = 400 * 24 * _HOUR
_MOST_BYTES: Final = 512 * 1024
_MOST_ENTRIES: Final = 500
_MOST_NAME: Final = 253


class Consumer(NamedTuple):
    """The namespace, user and queue that have used devices, and the DeviceClass of the devices."""

    namespace: str
    user: str
    queue: str
    device_class: str


@dataclass(slots=True)
class Seconds:
    """Seconds, each times the number of devices. `measured` is the allocated time in which the use was known."""

    requested: float = 0.0
    allocated: float = 0.0
    measured: float = 0.0
    used: float = 0.0

    def add(self, other: Seconds, factor: float = 1.0) -> None:
        self.requested += other.requested * factor
        self.allocated += other.allocated * factor
        self.measured += other.measured * factor
        self.used += other.used * factor

    def rounded(self) -> list[int]:
        return [round(amount) for amount in (self.requested, self.allocated, self.measured, self.used)]


class Totals:
    def __init__(self) -> None:
        self.until: float | None = None
        self.is_changed = False
        """Whether time was added that is not stored yet."""
        self._periods: dict[str, dict[Consumer, Seconds]] = {}

    def add(self, consumer: Consumer, rates: Seconds, start: float, end: float) -> None:
        """Adds the time from `start` to `end`, each of its hours to that hour."""
        self.is_changed = self.is_changed or start < end
        while start < end:
            stop = min(end, (start // _HOUR + 1) * _HOUR)
            self._entry(_name(start), consumer).add(rates, stop - start)
            start = stop

    def _entry(self, period: str, consumer: Consumer) -> Seconds:
        entries = self._periods.setdefault(period, {})
        if consumer not in entries and len(entries) >= _MOST_ENTRIES:
            consumer = Consumer(OTHERS, OTHERS, OTHERS, consumer.device_class)
            if consumer not in entries and len(entries) >= 2 * _MOST_ENTRIES:
                consumer = Consumer(OTHERS, OTHERS, OTHERS, OTHERS)
        return entries.setdefault(consumer, Seconds())

    def since(self, moment: float) -> dict[Consumer, Seconds]:
        """Sums up the periods that end after `moment`."""
        found: dict[Consumer, Seconds] = {}
        for period, entries in self._periods.items():
            if _end(period) > moment:
                for consumer, seconds in entries.items():
                    found.setdefault(consumer, Seconds()).add(seconds)
        return found

    def first(self) -> float | None:
        """Returns the start of the earliest period."""
        return min((_start(period) for period in self._periods), default=None)

    def compact(self, now: float) -> None:
        """Turns hours that are older than two days into days, and drops what is older than 400 days."""
        for period in [*self._periods]:
            if "T" in period and _end(period) < now - _HOURLY:
                for consumer, seconds in self._periods.pop(period).items():
                    self._entry(period.partition("T")[0], consumer).add(seconds)
        self._periods = {each: found for each, found in self._periods.items() if _end(each) >= now - _LONGEST}

    def data(self) -> dict[str, str]:
        """Returns the data of the ConfigMap. The oldest periods are dropped if there is no room for all."""
        made = {period: _encoded(entries) for period, entries in self._periods.items()}
        room = _MOST_BYTES - sum(len(text.encode()) + len(period) for period, text in made.items())
        for period in sorted(made, key=_start):
            if room >= 0:
                break
            room += len(made.pop(period).encode()) + len(period)
            del self._periods[period]
        return {UNTIL: f"{self.until or 0:.0f}", **made}

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Totals:
        """Reads the data of the ConfigMap. What cannot be read is left out."""
        totals = cls()
        for period, text in data.items():
            try:
                if period == UNTIL:
                    totals.until = float(text) or None
                else:
                    _start(period)
                    totals._periods[period] = dict(_decoded(text))
            except (ValueError, TypeError, RecursionError):
                continue
        return totals


def _encoded(entries: Mapping[Consumer, Seconds]) -> str:
    return json.dumps([[*consumer, *seconds.rounded()] for consumer, seconds in sorted(entries.items())])


def _decoded(text: str) -> Iterator[tuple[Consumer, Seconds]]:
    for namespace, user, queue, device_class, *seconds in json.loads(text):
        names = (str(name)[:_MOST_NAME] for name in (namespace, user, queue, device_class))
        yield Consumer(*names), Seconds(*(float(value) for value in seconds[:4]))


def _name(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H")


def _start(period: str) -> float:
    """Raises ValueError if it is neither an hour nor a day."""
    form = "%Y-%m-%dT%H" if "T" in period else "%Y-%m-%d"
    return datetime.strptime(period, form).replace(tzinfo=UTC).timestamp()


def _end(period: str) -> float:
    return _start(period) + (_HOUR if "T" in period else 24 * _HOUR)
