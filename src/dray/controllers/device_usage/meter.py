"""Adds up the device time of claims: each claim has rates, and time passes at these rates until they change. Pure.

Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dray.controllers.device_usage.totals import Consumer, Seconds, Totals


@dataclass(slots=True)
class _Metered:
    since: float
    rates: Mapping[Consumer, Seconds]


class Meter:
    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._claims: dict[str, _Metered] = {}
        """Rates by claim uid."""

    def set(self, uid: str, rates: Mapping[Consumer, Seconds], since: float, now: float) -> None:
        """Sets the claim's rates from `since`, or from now on if it got other rates after `since`."""
        before = self._claims.get(uid)
        start = min(since, now)
        if before is not None:
            if before.rates == rates:
                return
            if start <= before.since:
                start = now
            self._add(before, start)
        if rates:
            self._claims[uid] = _Metered(start, rates)
        else:
            self._claims.pop(uid, None)

    def remove(self, uid: str, now: float) -> None:
        """Removes a deleted claim."""
        before = self._claims.pop(uid, None)
        if before is not None:
            self._add(before, now)

    def advance(self, now: float) -> None:
        """Adds the time of all claims up to now."""
        for metered in self._claims.values():
            self._add(metered, now)
            metered.since = max(metered.since, now)
        self.totals.until = max(now, self.totals.until or 0.0)

    def _add(self, metered: _Metered, now: float) -> None:
        for consumer, rates in metered.rates.items():
            self.totals.add(consumer, rates, metered.since, now)
