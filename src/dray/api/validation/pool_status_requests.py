"""ResourcePoolStatusRequest: a question that a controller answers once."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.rules import Rules
from dray.api.validation import fields
from dray.api.validation.fields import Errors

MAX_LIMIT = 1000
MAX_POOLS = 1000
MAX_CONDITIONS = 10
MAX_VALIDATION_ERROR = 256
MAX_SUMMARY = 32


def validate(request: Object, rules: Rules) -> Errors:
    spec = request["spec"]
    if not spec["driver"]:
        yield errors.required("spec.driver")
    else:
        yield from fields.subdomain(spec["driver"].lower(), "spec.driver")
    if spec.get("poolName") is not None:
        if not spec["poolName"]:
            yield errors.invalid("spec.poolName", "", "must be either unset or the name of a pool")
        else:
            yield from fields.pool(spec["poolName"], "spec.poolName")
    limit = spec.get("limit")
    if limit is not None and not 1 <= limit <= MAX_LIMIT:
        yield errors.invalid("spec.limit", limit, f"must be between 1 and {MAX_LIMIT}")
    attribute = spec.get("defaultPartitionTypeAttribute")
    if attribute is not None:
        if not rules.gates["DRAPartitionableDevicesType"]:
            yield errors.forbidden(
                "spec.defaultPartitionTypeAttribute", "needs the feature gate DRAPartitionableDevicesType"
            )
        else:
            yield from fields.fully_qualified_name(attribute, "spec.defaultPartitionTypeAttribute")


def validate_update(request: Object, old: Object, rules: Rules) -> Errors:
    yield from fields.immutable(request["spec"], old["spec"], "spec", declarative=True)


def validate_status(request: Object, old: Object) -> Errors:
    status = request.get("status")
    if old.get("status") is not None:
        yield from fields.immutable(status, old["status"], "status", declarative=True)
        return
    if status is None:
        return
    yield from _not_negative(status, "poolCount", "status")
    yield from fields.limited(status.get("pools") or [], MAX_POOLS, "status.pools", _pool)
    entries = status.get("conditions") or []
    if len(entries) > MAX_CONDITIONS:
        yield errors.too_many("status.conditions", len(entries), MAX_CONDITIONS)
    yield from fields.conditions(entries, "status.conditions")


def _not_negative(value: Object, member: str, path: str) -> Errors:
    if (value.get(member) or 0) < 0:
        yield errors.invalid(f"{path}.{member}", value[member], "must not be negative")


def _pool(pool: Object, path: str) -> Errors:
    if not pool.get("driver"):
        yield errors.required(f"{path}.driver")
    if not pool.get("poolName"):
        yield errors.required(f"{path}.poolName")
    if not pool["generation"]:
        yield errors.required(f"{path}.generation")
    yield from _not_negative(pool, "generation", path)
    if pool.get("resourceSliceCount") is not None and pool["resourceSliceCount"] < 1:
        yield errors.invalid(f"{path}.resourceSliceCount", pool["resourceSliceCount"], "must be at least 1")
    for member in ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"):
        yield from _not_negative(pool, member, path)
    if pool.get("nodeName") is not None:
        yield from fields.subdomain(pool["nodeName"], f"{path}.nodeName")
    if names.size(pool.get("validationError") or "") > MAX_VALIDATION_ERROR:
        yield errors.too_long(f"{path}.validationError", MAX_VALIDATION_ERROR)
    yield from fields.limited(
        pool.get("partitionSummary") or [],
        MAX_SUMMARY,
        f"{path}.partitionSummary",
        _partition,
        key=fields.by("attribute", "type"),
    )
    if pool.get("shareableSummary") is not None:
        yield from _shareable(pool["shareableSummary"], f"{path}.shareableSummary")


def _partition(summary: Object, path: str) -> Errors:
    for member in ("attribute", "type"):
        if not summary.get(member):
            yield errors.required(f"{path}.{member}")
    for member in ("total", "allocatable"):
        yield from _not_negative(summary, member, path)


def _shareable(summary: Object, path: str) -> Errors:
    for member in ("fullyAvailableDevices", "partiallyAvailableDevices"):
        yield from _not_negative(summary, member, path)

    def check(capacity: Object, at: str) -> Errors:
        if not capacity.get("name"):
            yield errors.required(f"{at}.name")

    yield from fields.limited(
        summary.get("capacity") or [], MAX_SUMMARY, f"{path}.capacity", check, key=fields.by("name")
    )
