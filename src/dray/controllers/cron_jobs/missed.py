"""The last time at which a schedule was due, however many came before it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from dray.api.cron import Schedule

MANY: Final = 100
"""More missed times than this hint at a wrong clock or a controller that was down for long."""


class Due(NamedTuple):
    last: datetime | None
    """The latest time at which the schedule was due; None if it was not due since `since`."""
    is_many: bool = False


def last_due(schedule: Schedule, since: datetime, now: datetime) -> Due:
    last, count, moment = None, 0, schedule.next(since)
    first = moment
    while moment is not None and moment <= now:
        last, count = moment, count + 1
        if count > MANY:
            assert first is not None
            return Due(_last_of_many(schedule, first, moment, now), True)
        moment = schedule.next(moment)
    return Due(last)


def _last_of_many(schedule: Schedule, first: datetime, found: datetime, now: datetime) -> datetime:
    """Goes back from now, further each time, and then forward: a year of minutes is not walked through.

    Back by whole distances of the first two, so that a plain interval stays in step.
    """
    second = schedule.next(first) or found
    distance = max(second - first, timedelta(seconds=1))
    steps, back = (now - first) // distance, 1
    while True:
        start = first + max(0, steps - back) * distance
        moment = schedule.next(start)
        if start <= found or (moment is not None and moment <= now):
            break
        back *= 2
    last = max(found, start) if start <= found else found
    while moment is not None and moment <= now:
        last, moment = max(last, moment), schedule.next(moment)
    return last
