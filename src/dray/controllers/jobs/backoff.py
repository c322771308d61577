"""Backoff of a Job before it replaces a failed pod: 10 s, doubling to 10 minutes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dray.api.objects import Object
from dray.controllers.jobs import pods as pod_facts

_FIRST: Final = 10.0
_LONGEST: Final = 600.0


def remaining(failures: int, last: datetime | None, now: datetime) -> float:
    """Seconds still to wait after so many failures in a row."""
    if not failures or last is None:
        return 0.0
    wait = min(_LONGEST, _FIRST * 2.0 ** min(failures - 1, 30))
    return max(0.0, wait - (now - last).total_seconds())


@dataclass(frozen=True, slots=True)
class Record:
    """Failures since the last success."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Object], failed: Iterable[Object]) -> Record:
        """The record once these pods have ended too."""
        success = max(map(pod_facts.finish_time, succeeded), default=None)
        before = self if success is None else Record()
        ends = [end for end in map(pod_facts.finish_time, failed) if success is None or end > success]
        last = max([*ends, *([before.last] if before.last else [])], default=None)
        return Record(before.failures + len(ends), last)

    def remaining(self, now: datetime) -> float:
        return remaining(self.failures, self.last, now)
