"""Rows of DaemonSets, StatefulSets, ControllerRevisions and CronJobs."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import split_api_version
from dray.api.objects import Object, controller_of, mapping, status_of
from dray.api.tables.cluster import selected_labels, template_containers
from dray.api.tables.column import AGE, NAME, NONE, Column, age


def counted(member: str) -> Any:
    return lambda obj, now: status_of(obj).get(member) or 0


def _node_selector(daemon_set: Object, now: str) -> str:
    selector = mapping(daemon_set["spec"]["template"]["spec"].get("nodeSelector"))
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or NONE


def ready(obj: Object, now: str) -> str:
    return f"{status_of(obj).get('readyReplicas') or 0}/{obj['spec'].get('replicas') or 0}"


def _controller(revision: Object, now: str) -> str:
    owner = controller_of(revision)
    if owner is None:
        return NONE
    group = split_api_version(owner["apiVersion"])[0]
    return f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"


def _last_schedule(cron_job: Object, now: str) -> str:
    last = status_of(cron_job).get("lastScheduleTime")
    return age(last, now) if last else NONE


def _of_jobs(cell: Any) -> Any:
    """Applies a cell of Jobs to the job template of a CronJob."""
    return lambda cron_job, now: cell(cron_job["spec"]["jobTemplate"], now)


_CONTAINERS = (("Containers", template_containers("name")), ("Images", template_containers("image")))
WIDE = tuple(Column(name, cell, wide=True) for name, cell in _CONTAINERS)
SELECTOR = Column("Selector", selected_labels, wide=True)

COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("apps", "ControllerRevision"): (
        NAME,
        Column("Controller", _controller),
        Column("Revision", lambda obj, now: obj.get("revision") or 0, type="integer"),
        AGE,
    ),
    ("apps", "DaemonSet"): (
        NAME,
        Column("Desired", counted("desiredNumberScheduled"), type="integer"),
        Column("Current", counted("currentNumberScheduled"), type="integer"),
        Column("Ready", counted("numberReady"), type="integer"),
        Column("Up-to-date", counted("updatedNumberScheduled"), type="integer"),
        Column("Available", counted("numberAvailable"), type="integer"),
        Column("Node Selector", _node_selector),
        AGE,
        *WIDE,
        SELECTOR,
    ),
    ("apps", "StatefulSet"): (NAME, Column("Ready", ready), AGE, *WIDE),
    ("batch", "CronJob"): (
        NAME,
        Column("Schedule", lambda obj, now: obj["spec"].get("schedule", "")),
        Column("Timezone", lambda obj, now: obj["spec"].get("timeZone") or NONE),
        Column("Suspend", lambda obj, now: str(bool(obj["spec"].get("suspend")))),
        Column("Active", lambda obj, now: len(status_of(obj).get("active") or ()), type="integer"),
        Column("Last Schedule", _last_schedule),
        AGE,
        *(Column(name, _of_jobs(cell), wide=True) for name, cell in _CONTAINERS),
        Column("Selector", _of_jobs(selected_labels), wide=True),
    ),
}
