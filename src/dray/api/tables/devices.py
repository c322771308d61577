"""Rows of resource.k8s.io."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import RESOURCE_GROUP
from dray.api.objects import Object, conditions_of, status_of
from dray.api.tables.column import AGE, NAME, NONE, Column, age


def claim_state(claim: Object, now: str) -> str:
    """`pending`, `allocated,reserved`, `deleted,allocated`: what is true of the claim, in this order."""
    status = status_of(claim)
    states = []
    if claim["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if status.get("allocation") is not None:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states or ["pending"])


def _spec(*path: str) -> Any:
    def cell(obj: Object, now: str) -> Any:
        value: Any = obj["spec"]
        for step in path:
            value = value.get(step, "")
        return value

    return cell


def _time_added(rule: Object, now: str) -> str:
    return age(rule["spec"]["taint"].get("timeAdded"), now)


def _condition(request: Object, kind: str) -> Object | None:
    conditions = conditions_of(request)
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def _sum(member: str) -> Any:
    def cell(request: Object, now: str) -> str:
        status = request.get("status")
        if status is None or _condition(request, "Failed"):
            return "-"
        return str(sum(pool.get(member) or 0 for pool in status.get("pools") or []))

    return cell


def _pool_errors(request: Object, now: str) -> str:
    status = request.get("status")
    if status is None or _condition(request, "Failed"):
        return "-"
    return str(sum(1 for pool in status.get("pools") or [] if pool.get("validationError")))


def _pool_count(request: Object, now: str) -> int:
    return int(status_of(request).get("poolCount", 0))


def _request_status(request: Object, now: str) -> str:
    if _condition(request, "Failed"):
        return "Failed"
    if not _condition(request, "Complete"):
        return "Pending"
    listed, total = len(request["status"].get("pools") or []), _pool_count(request, now)
    return "Complete" if listed >= total else f"Complete ({listed}/{total} pools)"


def _completed(request: Object, now: str) -> str:
    condition = _condition(request, "Complete")
    return age(condition["lastTransitionTime"], now) if condition else NONE


COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    (RESOURCE_GROUP, "ResourceClaim"): (NAME, Column("State", claim_state), AGE),
    (RESOURCE_GROUP, "ResourceSlice"): (
        NAME,
        Column("Node", _spec("nodeName")),
        Column("Driver", _spec("driver")),
        Column("Pool", _spec("pool", "name")),
        AGE,
    ),
    (RESOURCE_GROUP, "DeviceTaintRule"): (
        NAME,
        Column("Key", _spec("taint", "key")),
        Column("Value", _spec("taint", "value")),
        Column("Effect", _spec("taint", "effect")),
        Column("TimeAdded", _time_added),
        AGE,
    ),
    (RESOURCE_GROUP, "ResourcePoolStatusRequest"): (
        NAME,
        Column("Driver", _spec("driver")),
        Column("Total", _sum("totalDevices")),
        Column("Available", _sum("availableDevices")),
        Column("Allocated", _sum("allocatedDevices")),
        Column("Unavailable", _sum("unavailableDevices")),
        Column("Errors", _pool_errors),
        Column("Pools", _pool_count, type="integer"),
        Column("Status", _request_status),
        Column("Completed", _completed),
    ),
}
