"""The Jobs of a CronJob: which the status lists as active, and which ended ones are too many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dray.api.objects import Object, is_true, key_of, status_of, uid_of
from dray.controllers.jobs import conditions


@dataclass(slots=True)
class Observation:
    status: Object
    missing: list[Object] = field(default_factory=list)
    """Entries of `status.active` that are not among the cached Jobs."""
    news: list[tuple[str, str, str]] = field(default_factory=list)
    """Events: type, reason, message."""


def observe(cron_job: Object, jobs: Iterable[Object]) -> Observation:
    status = dict(status_of(cron_job))
    # Somebody else may have written the status: what names no Job is dropped.
    named = (reference for reference in status.get("active") or () if reference.get("name") and reference.get("uid"))
    active = {reference["uid"]: reference for reference in named}
    found = Observation(status)
    seen: set[str] = set()
    for job in jobs:
        uid, name, end = uid_of(job), key_of(job)[1], conditions.end(job)
        seen.add(uid)
        if uid not in active and end is None:
            text = f"Saw a job that the controller did not create or forgot: {name}"
            found.news.append(("Warning", "UnexpectedJob", text))
        if uid in active and end is not None:
            del active[uid]
            text = f"Saw completed job: {name}, condition: {end['type']}"
            found.news.append(("Normal", "SawCompletedJob", text))
        completed = status_of(job).get("completionTime") if is_true(job, conditions.COMPLETE) else None
        if completed and completed > (status.get("lastSuccessfulTime") or ""):
            status["lastSuccessfulTime"] = completed
    found.missing = [each for uid, each in active.items() if uid not in seen]
    put_active(status, active.values())
    return found


def put_active(status: Object, active: Iterable[Object]) -> None:
    status.pop("active", None)
    if found := list(active):
        status["active"] = found


def surplus(cron_job: Object, jobs: Iterable[Object]) -> list[Object]:
    """Returns the oldest successful and failed Jobs beyond the history limits."""
    ended: dict[str, list[Object]] = {conditions.COMPLETE: [], conditions.FAILED: []}
    for job in jobs:
        end = conditions.end(job)
        if end is not None:
            ended[end["type"]].append(job)
    limits = {
        conditions.COMPLETE: cron_job["spec"].get("successfulJobsHistoryLimit"),
        conditions.FAILED: cron_job["spec"].get("failedJobsHistoryLimit"),
    }
    found = []
    for kind, limit in limits.items():
        if limit is not None and len(ended[kind]) > limit:
            found += sorted(ended[kind], key=_started)[: len(ended[kind]) - limit]
    return found


def _started(job: Object) -> tuple[bool, str, str]:
    """Sort key: by start time; Jobs that never started come last."""
    start = status_of(job).get("startTime")
    return not start, start or "", key_of(job)[1]
