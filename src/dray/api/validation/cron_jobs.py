"""CronJob: when it is due, in which time zone, and the jobs it makes."""

from __future__ import annotations

from dataclasses import replace

from dray.api import cron, errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields, jobs
from dray.api.validation.fields import Errors

# Its jobs have names with up to eleven letters more, and their pods again more.
MAX_NAME = 52
_POLICIES = ["Allow", "Forbid", "Replace"]
_LIMITS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_TEMPLATE = "spec.jobTemplate"


def validate(cron_job: Object, rules: Rules) -> Errors:
    yield from _spec(cron_job["spec"], None)
    name = cron_job["metadata"].get("name") or ""
    if names.size(name) > MAX_NAME:
        yield errors.invalid("metadata.name", name, f"must be no more than {MAX_NAME} characters")


def validate_update(cron_job: Object, old: Object, rules: Rules) -> Errors:
    yield from _spec(cron_job["spec"], old["spec"])


def _spec(spec: Object, old: Object | None) -> Errors:
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if not schedule:
        yield errors.required("spec.schedule")
    else:
        # Schedules with a zone of their own came before the field; those that are stored may stay.
        yield from _schedule(schedule, zone, may_have_zone=old is not None and "TZ" in (old.get("schedule") or ""))
    yield from fields.not_negative(spec, _LIMITS, "spec")
    if zone is not None and (old is None or zone != old.get("timeZone")):
        yield from _time_zone(zone, "spec.timeZone")
    yield from fields.enum(spec.get("concurrencyPolicy"), _POLICIES, "spec.concurrencyPolicy", required=True)
    template = spec["jobTemplate"]["spec"]
    for error in jobs.validate_spec(template):
        yield replace(error, field=f"{_TEMPLATE}.{error.field}")
    if template.get("selector") is not None:
        yield errors.invalid(f"{_TEMPLATE}.spec.selector", template["selector"], "`selector` will be auto-generated")
    if template.get("manualSelector"):
        yield errors.not_supported(f"{_TEMPLATE}.spec.manualSelector", True, ["nil", "false"])


def _schedule(schedule: str, zone: str | None, *, may_have_zone: bool) -> Errors:
    try:
        cron.parse(schedule)
    except ValueError as error:
        yield errors.invalid("spec.schedule", schedule, str(error))
    if "TZ" not in schedule:
        return
    if not may_have_zone:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield errors.invalid("spec.schedule", schedule, detail)
    elif zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield errors.invalid("spec.schedule", schedule, detail)


def _time_zone(zone: str, path: str) -> Errors:
    if not zone:
        yield errors.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield errors.invalid(path, zone, detail)
    try:
        cron.find_zone(zone)
    except ValueError as error:
        yield errors.invalid(path, zone, str(error))
