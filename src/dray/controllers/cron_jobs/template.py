"""A Job of a CronJob, made from its template, and the reference by which the status lists it."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from dray.api.objects import Object, metadata_of, spec_of
from dray.controllers.kinds import CRON_JOBS, JOBS
from dray.controllers.workloads.pod_template import reference

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def job_name(cron_job: Object, scheduled: datetime) -> str:
    """Returns a name that is the same for the same time, so that no second Job is created for it."""
    return f"{cron_job['metadata']['name']}-{int(scheduled.timestamp()) // 60}"


def job(cron_job: Object, scheduled: datetime, zone: tzinfo | None) -> Object:
    template = cron_job["spec"]["jobTemplate"]
    given = metadata_of(template)
    shown = scheduled.astimezone(zone).isoformat() if zone is not None else scheduled.isoformat()
    metadata = {
        "name": job_name(cron_job, scheduled),
        "namespace": cron_job["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: shown.replace("+00:00", "Z")},
        "ownerReferences": [reference(cron_job, CRON_JOBS)],
    }
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": dict(spec_of(template))}


def listed(made: Object) -> Object:
    """Builds the entry in `status.active`."""
    metadata = made["metadata"]
    members = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion") if name in metadata}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **members}
