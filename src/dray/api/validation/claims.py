"""ResourceClaim and ResourceClaimTemplate."""

from __future__ import annotations

import ipaddress

from dray.api import errors, names
from dray.api.objects import Object
from dray.api.resource_claims import MAX_CONSUMERS, MAX_DEVICES, allocation_results
from dray.api.rules import Rules
from dray.api.validation import fields, metadata, node_selectors, requests, taints
from dray.api.validation.devices import binding_conditions
from dray.api.validation.devices import node_operations as node_operations
from dray.api.validation.fields import Errors

MAX_ALLOCATION_CONFIGURATIONS = 64
MAX_DEVICE_CONDITIONS = 8
MAX_DEVICE_DATA = 10240
MAX_INTERFACE_NAME = 256
MAX_HARDWARE_ADDRESS = 128
MAX_IPS = 16

_SOURCES = ["FromClaim", "FromClass"]
_DEVICE_KEY = ("driver", "pool", "device", "shareID")


def validate_create(claim: Object, rules: Rules) -> Errors:
    yield from requests.admin_access(claim["spec"]["devices"], rules)
    yield from requests.validate(claim["spec"]["devices"], "spec.devices", rules)


def validate_update(claim: Object, old: Object, rules: Rules) -> Errors:
    """The spec cannot change, and what is stored is not judged again."""
    yield from fields.immutable(claim["spec"], old["spec"], "spec", declarative=True)


def validate_template_create(template: Object, rules: Rules) -> Errors:
    yield from requests.admin_access(template["spec"]["spec"]["devices"], rules)
    yield from _template(template, rules)


def validate_template_update(template: Object, old: Object, rules: Rules) -> Errors:
    yield from _template(template, rules)
    yield from fields.immutable(template["spec"], old["spec"], "spec")


def _template(template: Object, rules: Rules) -> Errors:
    yield from metadata.template(template["spec"]["metadata"], "spec.metadata")
    yield from requests.validate(template["spec"]["spec"]["devices"], "spec.spec.devices", rules)


def validate_status(claim: Object, old: Object, rules: Rules) -> Errors:
    status, old_status = claim["status"], old["status"]
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    reserved, old_reserved = status.get("reservedFor") or [], old_status.get("reservedFor") or []
    yield from _admin_results(allocation, old_allocation, rules)
    yield from fields.limited(reserved, MAX_CONSUMERS, "status.reservedFor", _consumer, key=fields.by("uid"))
    if reserved:
        if allocation is None:
            yield errors.forbidden("status.reservedFor", "may not be set when there is no allocation")
        if claim["metadata"].get("deletionTimestamp") and {entry["uid"] for entry in reserved} - {
            entry["uid"] for entry in old_reserved
        }:
            yield errors.forbidden(
                "status.reservedFor", "new consumers may not be added while the claim is being deleted"
            )
    if allocation is not None:
        if old_allocation is None:
            yield from _allocation(allocation, "status.allocation", requests.request_names(claim["spec"]["devices"]))
        elif allocation != old_allocation:
            yield errors.invalid("status.allocation", None, "field cannot be modified once set", declarative=True)
    if status.get("devices"):
        yield from _device_statuses(status["devices"], allocation)


def _admin_results(allocation: Object | None, old: Object | None, rules: Rules) -> Errors:
    if rules.admin_namespace or allocation is None or (old is not None and any(_has_admin(old))):
        return
    for index, granted in enumerate(_has_admin(allocation)):
        if granted:
            yield errors.forbidden(
                f"status.allocation.devices.results[{index}].adminAccess",
                requests.NO_ADMIN_NAMESPACE,
            )
            return


def _has_admin(allocation: Object) -> list[bool]:
    results = allocation.get("devices", {}).get("results") or []
    return [bool(result.get("adminAccess")) for result in results]


def _consumer(entry: Object, path: str) -> Errors:
    for member in ("resource", "name", "uid"):
        if not entry[member]:
            yield errors.required(f"{path}.{member}")


def _allocation(allocation: Object, path: str, known: frozenset[str]) -> Errors:
    devices = allocation["devices"]

    def check_result(result: Object, at: str) -> Errors:
        return _result(result, at, known)

    def check_configuration(configuration: Object, at: str) -> Errors:
        yield from fields.enum(configuration["source"], _SOURCES, f"{at}.source", required=True)
        yield from requests.references(configuration.get("requests") or [], f"{at}.requests", known)
        yield from fields.opaque_configuration(configuration, at)

    yield from fields.limited(devices.get("results") or [], MAX_DEVICES, f"{path}.devices.results", check_result)
    yield from fields.limited(
        devices.get("config") or [],
        MAX_ALLOCATION_CONFIGURATIONS,
        f"{path}.devices.config",
        check_configuration,
    )
    if allocation.get("nodeSelector") is not None:
        yield from node_selectors.validate(allocation["nodeSelector"], f"{path}.nodeSelector")


def _result(result: Object, path: str, known: frozenset[str]) -> Errors:
    yield from requests.reference(result["request"], f"{path}.request", known)
    yield from _device_reference(result, path)
    yield from binding_conditions(result, path)
    yield from taints.tolerations(result.get("tolerations") or [], f"{path}.tolerations")
    yield from node_operations(result.get("skipNodeOperations") or [], f"{path}.skipNodeOperations")


def _device_reference(value: Object, path: str) -> Errors:
    yield from fields.driver(value["driver"], f"{path}.driver")
    yield from fields.pool(value["pool"], f"{path}.pool")
    yield from fields.label(value["device"], f"{path}.device")
    if value.get("shareID") is not None:
        yield from fields.uuid(value["shareID"], f"{path}.shareID")


def _device_statuses(statuses: list[Object], allocation: Object | None) -> Errors:
    key = fields.by(*_DEVICE_KEY)
    results = allocation_results(allocation)
    allocated = {key(result) for result in results}
    seen = set()
    for index, status in enumerate(statuses):
        path = f"status.devices[{index}]"
        yield from _device_reference(status, path)
        if key(status) not in allocated:
            yield errors.invalid(path, key(status), "must be an allocated device in the claim")
        if key(status) in seen:
            yield errors.duplicate(path, key(status))
        seen.add(key(status))
        yield from fields.conditions(status["conditions"] or [], f"{path}.conditions", limit=MAX_DEVICE_CONDITIONS)
        if status.get("data") is not None:
            yield from fields.raw_object(status["data"], f"{path}.data", limit=MAX_DEVICE_DATA)
        if status.get("networkData") is not None:
            yield from _network(status["networkData"], f"{path}.networkData")


def _network(data: Object, path: str) -> Errors:
    for member, limit in (("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)):
        if names.size(data.get(member, "")) > limit:
            yield errors.too_long(f"{path}.{member}", limit)
    yield from fields.limited(data.get("ips") or [], MAX_IPS, f"{path}.ips", _interface_address, key=fields.itself)


def _interface_address(text: str, path: str) -> Errors:
    """An address with prefix length whose host bits are kept, in canonical form."""
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        yield errors.invalid(path, text, "must be an address in CIDR form, such as 10.9.8.7/24 or 2001:db8::1/64")
        return
    if str(interface) != text or "/" not in text:
        yield errors.invalid(path, text, f"must be in canonical form ({interface})")
