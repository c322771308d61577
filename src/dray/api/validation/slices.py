"""ResourceSlice: the pool, where its devices are, counters and devices."""

from __future__ import annotations

from dray.api import errors
from dray.api.objects import Object, mapping
from dray.api.rules import Rules
from dray.api.validation import devices, fields, node_selectors
from dray.api.validation.devices import node_operations as node_operations
from dray.api.validation.fields import Errors

MAX_DEVICES = 128
MAX_DETAILED_DEVICES = 64
MAX_COUNTER_SETS = 8

_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def validate(resource_slice: Object, rules: Rules, old: Object | None = None) -> Errors:
    spec = resource_slice["spec"]
    old_spec = old["spec"] if old else None
    yield from fields.driver(spec["driver"], "spec.driver")
    yield from _pool(spec["pool"])
    if old_spec is not None:
        yield from fields.immutable(spec["pool"]["name"], old_spec["pool"]["name"], "spec.pool.name")
        yield from fields.immutable(spec["driver"], old_spec["driver"], "spec.driver")
        yield from fields.immutable(spec.get("nodeName"), old_spec.get("nodeName"), "spec.nodeName")
    yield from _node_fields(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        yield errors.invalid("spec", None, "only one of `sharedCounters` or `devices` may be set")
    if old_spec is None or spec.get("devices") != old_spec.get("devices"):
        yield from _devices(spec, old_spec, rules)
    yield from fields.limited(
        spec.get("sharedCounters") or [],
        MAX_COUNTER_SETS,
        "spec.sharedCounters",
        devices.counter_set,
        key=fields.by("name"),
    )
    if spec.get("partitionTypeAttribute") is not None:
        yield from _partition_type(spec)
    yield from node_operations(spec.get("skipNodeOperations") or [], "spec.skipNodeOperations")


def _pool(pool: Object) -> Errors:
    yield from fields.pool(pool["name"], "spec.pool.name")
    if pool["resourceSliceCount"] <= 0:
        yield errors.invalid("spec.pool.resourceSliceCount", pool["resourceSliceCount"], "must be greater than zero")
    if pool["generation"] < 0:
        yield errors.invalid("spec.pool.generation", pool["generation"], "must not be negative")


def _node_fields(spec: Object) -> Errors:
    chosen = []
    if spec.get("nodeName") is not None:
        if spec["nodeName"]:
            chosen.append("nodeName")
            yield from fields.subdomain(spec["nodeName"], "spec.nodeName")
        else:
            yield errors.invalid("spec.nodeName", "", "must be either unset or a non-empty string")
    if spec.get("nodeSelector") is not None:
        chosen.append("nodeSelector")
        yield from node_selectors.validate(spec["nodeSelector"], "spec.nodeSelector")
        terms = spec["nodeSelector"]["nodeSelectorTerms"] or []
        if len(terms) != 1:
            yield errors.invalid(
                "spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term"
            )
    for member in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(member) is True:
            chosen.append(member)
        elif spec.get(member) is False:
            yield errors.invalid(f"spec.{member}", False, "must be either unset or set to true")
    yield from one_node_field("spec", chosen, _NODE_FIELDS)


def one_node_field(path: str, chosen: list[str], members: tuple[str, ...]) -> Errors:
    names = ", ".join(f"`{member}`" for member in members)
    if not chosen:
        yield errors.required(path, f"exactly one of {names} is required")
    elif len(chosen) > 1:
        shown = ", ".join(f"`{member}`" for member in chosen)
        yield errors.invalid(path, f"{{{shown}}}", f"exactly one of {names} is required")


def _devices(spec: Object, old_spec: Object | None, rules: Rules) -> Errors:
    items = spec.get("devices") or []
    selection = spec.get("perDeviceNodeSelection") is True
    if not selection and _all_ordinary(items):
        return
    detailed = len(items) > MAX_DETAILED_DEVICES and any(map(devices.is_detailed, items))
    limit = MAX_DETAILED_DEVICES if detailed else MAX_DEVICES
    old_devices = {device["name"]: device for device in (old_spec.get("devices") or [])} if old_spec else {}

    def check(device: Object, at: str) -> Errors:
        old = old_devices.get(device["name"])
        return devices.validate(device, at, rules, per_device_selection=selection, old=old)

    yield from fields.limited(items, limit, "spec.devices", check, key=fields.by("name"))


def _all_ordinary(items: list[Object]) -> bool:
    """Whether the devices break no rule, neither alone nor together."""
    if len(items) > MAX_DEVICES or not all(map(devices.is_ordinary, items)):
        return False
    return len({device["name"] for device in items}) == len(items)


def _partition_type(spec: Object) -> Errors:
    name = spec["partitionTypeAttribute"]
    yield from fields.fully_qualified_name(name, "spec.partitionTypeAttribute")
    domain, _, identifier = name.partition("/")
    consumers = 0
    for index, device in enumerate(spec.get("devices") or []):
        if not device.get("consumesCounters"):
            continue
        consumers += 1
        attributes = mapping(device.get("attributes"))
        attribute = attributes.get(name)
        if attribute is None and domain == spec["driver"]:
            attribute = attributes.get(identifier)
        path = f"spec.devices[{index}].attributes[{name}]"
        if attribute is None:
            yield errors.required(path, "every device that consumes counters needs the partition type attribute")
        elif attribute.get("string") is None:
            yield errors.invalid(path, attribute, "the partition type attribute must be a string")
    if not consumers:
        yield errors.invalid("spec.partitionTypeAttribute", name, "needs at least one device that consumes counters")
