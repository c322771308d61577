"""Rows of scheduling.k8s.io."""

from __future__ import annotations

from dray.api.catalogue import SCHEDULING_GROUP
from dray.api.objects import Object, conditions_of, mapping
from dray.api.tables.column import AGE, NAME, NONE, Column


def _policy(group: Object, now: str) -> str:
    return "Gang" if group["spec"]["schedulingPolicy"].get("gang") is not None else "Basic"


def _workload(group: Object, now: str) -> str:
    return str(mapping(group["spec"].get("workloadRef")).get("workloadName", NONE))


def _status(group: Object, now: str) -> str:
    found = "Pending"
    for condition in conditions_of(group):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition["reason"])
        if condition["type"] == "PodGroupInitiallyScheduled":
            found = "Scheduled" if condition["status"] == "True" else "Unschedulable"
    return found


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    (SCHEDULING_GROUP, "PodGroup"): (
        NAME,
        Column("Policy", _policy),
        Column("Workload", _workload),
        Column("Status", _status),
        AGE,
    ),
    (SCHEDULING_GROUP, "CompositePodGroup"): (NAME, Column("Policy", _policy), Column("Workload", _workload), AGE),
    (SCHEDULING_GROUP, "PriorityClass"): (
        NAME,
        Column("Value", lambda obj, now: obj.get("value", 0), type="integer"),
        Column("Global-Default", lambda obj, now: obj.get("globalDefault", False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", lambda obj, now: obj.get("preemptionPolicy", "PreemptLowerPriority")),
    ),
}
