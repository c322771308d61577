"""The decision whether a CronJob starts a Job now, and when to look at it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

from dray.api import cron
from dray.api.objects import Object, is_deleting, status_of
from dray.api.times import after
from dray.client.clock import moment
from dray.controllers.cron_jobs.missed import last_due
from dray.controllers.cron_jobs.template import job_name

# A little after the time, so that it has certainly come.
_MARGIN: Final = 0.1
_TOO_MANY: Final = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_ACTIVE: Final = "Not starting job because prior execution is running and concurrency policy is Forbid"


@dataclass(frozen=True, slots=True)
class Decision:
    start: datetime | None = None
    """The scheduled time of the Job to create."""
    wait: float | None = None
    replaces: bool = False
    """True if running Jobs must be deleted first."""
    news: tuple[tuple[str, str, str], ...] = ()
    """Events: type, reason, message."""


def decide(cron_job: Object, now: datetime) -> Decision:
    spec, status = cron_job["spec"], status_of(cron_job)
    if is_deleting(cron_job) or spec.get("suspend"):
        return Decision()
    found = read_schedule(spec)
    if isinstance(found, Decision):
        return found
    schedule, _ = found
    due = last_due(schedule, _since(cron_job, now), now)
    wait = until_next(schedule, now)
    news = [("Warning", "TooManyMissedTimes", _TOO_MANY)] if due.is_many else []
    if due.last is None:
        return Decision(wait=wait)
    active = status.get("active") or ()
    name, last = job_name(cron_job, due.last), status.get("lastScheduleTime")
    if any(reference.get("name") == name for reference in active) or (last and moment(last) == due.last):
        return Decision(wait=wait, news=tuple(news))
    policy = spec.get("concurrencyPolicy")
    if active and policy == "Forbid":
        return Decision(wait=wait, news=(*news, ("Normal", "JobAlreadyActive", _ACTIVE)))
    return Decision(due.last, wait, policy == "Replace", tuple(news))


def read_schedule(spec: Mapping[str, Any]) -> tuple[cron.Schedule, tzinfo | None] | Decision:
    """Returns the schedule and its time zone, or a decision that reports why they are invalid."""
    name, text, zone = spec.get("timeZone"), spec.get("schedule") or "", None
    try:
        zone = cron.find_zone(name) if name is not None else None
    except ValueError as error:
        return Decision(news=(("Warning", "UnknownTimeZone", f'invalid timeZone: "{name}": {error}'),))
    try:
        return (cron.parse(text, zone) if zone is not None else cron.parse(text)), zone
    except ValueError as error:
        return Decision(news=(("Warning", "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}'),))


def until_next(schedule: cron.Schedule, now: datetime) -> float | None:
    following = schedule.next(now)
    return (following - now).total_seconds() + _MARGIN if following is not None else None


def _since(cron_job: Object, now: datetime) -> datetime:
    """Returns the time from which missed runs count; runs older than the starting deadline are too late."""
    last = status_of(cron_job).get("lastScheduleTime")
    since = moment(last or cron_job["metadata"]["creationTimestamp"])
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    return max(since, after(now, -deadline)) if deadline is not None else since
