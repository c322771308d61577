"""One device of a ResourceSlice."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.rules import Rules
from dray.api.semver import Semver, SemverError
from dray.api.validation import counters, fields, node_allocatable, node_selectors, request_policies, taints
from dray.api.validation.binding_conditions import validate as binding_conditions
from dray.api.validation.fields import Errors, Object

MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_ATTRIBUTE_TEXT = 64
MAX_TAINTS = 16
MAX_CONSUMPTIONS = 2

LIST_MEMBERS = ("ints", "bools", "strings", "versions")
_ATTRIBUTE_MEMBERS = ("int", "bool", "string", "version", *LIST_MEMBERS)
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")


def is_detailed(device: Object) -> bool:
    """Devices with taints, counters or list attributes count double: a slice may hold half as many."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    attributes = device.get("attributes") or {}
    return any(member in attribute for attribute in attributes.values() for member in LIST_MEMBERS)


def validate(
    device: Object, path: str, rules: Rules, *, per_device_selection: bool = False, old: Object | None = None
) -> Errors:
    """Capacity and taints of a device that did not change are not looked at again."""
    if not names.is_label(device["name"]):
        yield errors.invalid(f"{path}.name", device["name"], names.LABEL_DETAIL)
    attributes = device.get("attributes") or {}
    capacity = device.get("capacity") or {}
    yield from _totals(attributes, capacity, path)
    for key, attribute in attributes.items():
        if not (key.isidentifier() and key.isascii() and len(key) <= names.MAX_IDENTIFIER):
            yield from fields.qualified_name(key, f"{path}.attributes")
        if len(attribute) != 1 or not _is_plain(attribute):
            yield from _attribute(attribute, f"{path}.attributes[{_shortened(key)}]")
    if old is None or capacity != (old.get("capacity") or {}):
        yield from _capacity(device, capacity, path, rules)
    if device.get("taints") and (old is None or device["taints"] != old.get("taints")):
        yield from fields.limited(device["taints"], MAX_TAINTS, f"{path}.taints", taints.taint)
    if device.get("consumesCounters"):
        yield from fields.limited(
            device["consumesCounters"],
            MAX_CONSUMPTIONS,
            f"{path}.consumesCounters",
            counters.validate_consumption,
            key=fields.by("counterSet"),
            declarative=True,
        )
    yield from _node_selection(device, path, expected=per_device_selection)
    if device.get("bindingConditions") or device.get("bindingFailureConditions"):
        yield from binding_conditions(device, path)
    if device.get("nodeAllocatableResources"):
        yield from node_allocatable.validate(device, path)


def _shortened(key: str) -> str:
    """Keys longer than any valid one are cut in the middle, as Kubernetes prints them."""
    limit = names.MAX_DRIVER + 1 + names.MAX_IDENTIFIER
    if len(key) <= limit:
        return key
    half = (limit - 3) // 2
    return f"{key[:half]}...{key[-half:]}"


def _totals(attributes: Object, capacity: Object, path: str) -> Errors:
    total = len(attributes) + len(capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        yield errors.invalid(
            path,
            total,
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}",
        )
    values = sum(_value_count(attribute) for attribute in attributes.values())
    if values > MAX_ATTRIBUTE_VALUES:
        yield errors.invalid(
            path, values, f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        )


def _value_count(attribute: Object) -> int:
    return sum(len(value) if isinstance(value, list) else 1 for value in attribute.values())


def _is_plain(attribute: Object) -> bool:
    """The common case, decided without a generator: an int, a bool or a short string."""
    if "string" in attribute:
        return len(attribute["string"]) <= MAX_ATTRIBUTE_TEXT // 4
    return "int" in attribute or "bool" in attribute


def _attribute(attribute: Object, path: str) -> Errors:
    # An empty list counts as present for its own rule, and as absent for the union.
    chosen = {member: value for member, value in attribute.items() if value != []}
    yield from fields.union(chosen, _ATTRIBUTE_MEMBERS, path)
    for member, value in attribute.items():
        if value == []:
            yield errors.invalid(f"{path}.{member}", value, "must not be empty")
    if attribute.get("string") is not None:
        yield from _text(attribute["string"], f"{path}.string")
    if attribute.get("version") is not None:
        yield from _version(attribute["version"], f"{path}.version")
    for index, text in enumerate(attribute.get("strings") or []):
        yield from _text(text, f"{path}.strings[{index}]")
    for index, text in enumerate(attribute.get("versions") or []):
        yield from _version(text, f"{path}.versions[{index}]")


def _text(text: str, path: str) -> Errors:
    if names.size(text) > MAX_ATTRIBUTE_TEXT:
        yield errors.too_long(path, MAX_ATTRIBUTE_TEXT)


def _version(text: str, path: str) -> Errors:
    try:
        Semver.parse(text)
    except SemverError:
        yield errors.invalid(path, text, "must be a semantic version, such as 1.2.3")
    yield from _text(text, path)


def _capacity(device: Object, capacity: Object, path: str, rules: Rules) -> Errors:
    shared = device.get("allowMultipleAllocations") is True
    for key, entry in capacity.items():
        yield from fields.qualified_name(key, f"{path}.capacity")
        if entry.get("requestPolicy") is not None:
            at = f"{path}.capacity[{_shortened(key)}].requestPolicy"
            if not shared:
                yield errors.forbidden(at, "only allowed on a device with allowMultipleAllocations: true")
            else:
                yield from request_policies.validate(entry, at, rules.gates)


def _node_selection(device: Object, path: str, *, expected: bool) -> Errors:
    present = [member for member in _NODE_FIELDS if device.get(member) is not None]
    if not expected:
        if present:
            yield errors.invalid(
                path, None, "node fields may only be set if perDeviceNodeSelection is true for the slice"
            )
        return
    chosen = []
    for member in present:
        value = device[member]
        if member == "nodeName" and not value:
            yield errors.invalid(f"{path}.nodeName", value, "must not be empty")
            continue
        if member == "allNodes" and value is not True:
            yield errors.invalid(f"{path}.allNodes", value, "must be either unset or set to true")
            continue
        chosen.append(member)
        if member == "nodeName":
            yield from fields.subdomain(value, f"{path}.nodeName")
        elif member == "nodeSelector":
            yield from node_selectors.validate(value, f"{path}.nodeSelector")
    if not chosen:
        yield errors.required(path, "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required")
    elif len(chosen) > 1:
        shown = ", ".join(f"`{member}`" for member in chosen)
        yield errors.invalid(
            path, f"{{{shown}}}", "exactly one of `nodeName`, `nodeSelector` or `allNodes` is required"
        )
