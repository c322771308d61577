"""Devices of a ResourceSlice, and the parts of them that allocation results repeat."""

from __future__ import annotations

from itertools import chain

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.rules import Rules
from dray.api.semver import is_semver
from dray.api.validation import fields, node_selectors, request_policies, taints
from dray.api.validation.fields import Errors

MAX_ATTRIBUTES_AND_CAPACITIES = 32
MAX_ATTRIBUTE_VALUES = 48
MAX_ATTRIBUTE_TEXT = 64
MAX_TAINTS = 16
MAX_CONSUMPTIONS = 2

LIST_MEMBERS = ("ints", "bools", "strings", "versions")
_LIST_MEMBERS = frozenset(LIST_MEMBERS)
_ATTRIBUTE_MEMBERS = ("int", "bool", "string", "version", *LIST_MEMBERS)
_BASIC_MEMBERS = frozenset({"name", "attributes", "capacity", "allowMultipleAllocations", "bindsToNode"})
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")
MAX_CONDITIONS = 4
OPERATIONS = ["*", "NodePrepareResources", "NodeUnprepareResources"]
MAX_COUNTERS = 32
MAX_COMPATIBILITY_GROUPS = 2


def is_detailed(device: Object) -> bool:
    """Devices with taints, counters or list attributes count double: a slice may hold half as many."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return not _LIST_MEMBERS.isdisjoint(chain.from_iterable(mapping(device.get("attributes")).values()))


def is_ordinary(device: Object) -> bool:
    """Whether the device has nothing but a name, plain attributes and capacities, and breaks no rule.

    Most devices are like this, and a slice may have many: none of them needs to be looked at by `validate`.
    """
    if not _BASIC_MEMBERS.issuperset(device) or not names.is_label(device["name"]):
        return False
    attributes = mapping(device.get("attributes"))
    capacity = mapping(device.get("capacity"))
    if len(attributes) + len(capacity) > MAX_ATTRIBUTES_AND_CAPACITIES:
        return False
    for entry in capacity.values():
        if "requestPolicy" in entry:
            return False
    keys = names.are_qualified_names(tuple(attributes)) and names.are_qualified_names(tuple(capacity))
    return keys and _are_plain(attributes)


def validate(
    device: Object, path: str, rules: Rules, *, per_device_selection: bool = False, old: Object | None = None
) -> Errors:
    """Capacity and taints that did not change are not looked at again; `old` is the device of the same name."""
    if not names.is_label(device["name"]):
        yield errors.invalid(f"{path}.name", device["name"], names.LABEL_DETAIL)
    attributes = mapping(device.get("attributes"))
    capacity = mapping(device.get("capacity"))
    yield from _attributes(attributes, path)
    total = len(attributes) + len(capacity)
    if total > MAX_ATTRIBUTES_AND_CAPACITIES:
        limit = f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        yield errors.invalid(path, total, limit)
    if old is None or capacity != mapping(old.get("capacity")):
        if not names.are_qualified_names(tuple(capacity)):
            yield from _keys(capacity, f"{path}.capacity")
        for key, entry in capacity.items():
            if "requestPolicy" in entry:
                yield from _request_policy(device, entry, f"{path}.capacity[{_shortened(key)}].requestPolicy", rules)
    if device.get("taints"):
        # Effects are a declarative rule, and devices of a slice have no key by which those would be compared.
        unchanged = old is not None and device["taints"] == old.get("taints")
        check = taints.effect if unchanged else taints.taint
        yield from fields.limited(device["taints"], MAX_TAINTS, f"{path}.taints", check)
    if device.get("consumesCounters"):
        yield from fields.limited(
            device["consumesCounters"],
            MAX_CONSUMPTIONS,
            f"{path}.consumesCounters",
            counter_consumption,
            key=fields.by("counterSet"),
            declarative=True,
        )
    if per_device_selection or not device.keys().isdisjoint(_NODE_FIELDS):
        yield from _node_selection(device, path, expected=per_device_selection)
    if device.get("bindingConditions") or device.get("bindingFailureConditions"):
        yield from binding_conditions(device, path)
    if device.get("nodeAllocatableResources"):
        yield from node_allocatable(device, path)


def _shortened(key: str) -> str:
    """Keys longer than any valid one are cut in the middle, as Kubernetes prints them."""
    limit = names.MAX_DRIVER + 1 + names.MAX_IDENTIFIER
    if len(key) <= limit:
        return key
    half = (limit - 3) // 2
    return f"{key[:half]}...{key[-half:]}"


def _keys(values: Object, path: str) -> Errors:
    for key in values:
        yield from fields.qualified_name(key, path)


def _attributes(attributes: Object, path: str) -> Errors:
    if not names.are_qualified_names(tuple(attributes)):
        yield from _keys(attributes, f"{path}.attributes")
    if not _are_plain(attributes):
        for key, attribute in attributes.items():
            yield from _attribute(attribute, f"{path}.attributes[{_shortened(key)}]")
    values = sum(len(value) if isinstance(value, list) else 1 for one in attributes.values() for value in one.values())
    if values > MAX_ATTRIBUTE_VALUES:
        limit = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        yield errors.invalid(path, values, limit)


def _are_plain(attributes: Object) -> bool:
    """Whether each attribute is a single value that breaks no rule."""
    for attribute in attributes.values():
        if len(attribute) != 1:
            return False
        (member,) = attribute
        if member == "string":
            text = attribute[member]
            if (len(text) > MAX_ATTRIBUTE_TEXT or not text.isascii()) and names.size(text) > MAX_ATTRIBUTE_TEXT:
                return False
        elif member == "version":
            text = attribute[member]
            if len(text) > MAX_ATTRIBUTE_TEXT or not is_semver(text):
                return False
        elif member != "int" and member != "bool":
            return False
    return True


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
    if not is_semver(text):
        yield errors.invalid(path, text, "must be a semantic version, such as 1.2.3")
    yield from _text(text, path)


def _request_policy(device: Object, capacity: Object, path: str, rules: Rules) -> Errors:
    if device.get("allowMultipleAllocations") is True:
        yield from request_policies.validate(capacity, path, rules.gates)
    else:
        yield errors.forbidden(path, "only allowed on a device with allowMultipleAllocations: true")


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


def binding_conditions(value: Object, path: str) -> Errors:
    """Validates binding conditions: both lists or neither, at most four each, no condition in both."""
    binding, failure = value.get("bindingConditions") or [], value.get("bindingFailureConditions") or []

    def check(name: str, at: str) -> Errors:
        if not names.is_label_key(name):
            yield errors.invalid(at, name, names.LABEL_KEY_DETAIL)

    for member, items in (("bindingConditions", binding), ("bindingFailureConditions", failure)):
        yield from fields.limited(items, MAX_CONDITIONS, f"{path}.{member}", check, key=fields.itself, declarative=True)
    for index, name in enumerate(failure):
        if name in binding:
            yield errors.invalid(
                f"{path}.bindingFailureConditions[{index}]", name, "must not be in bindingConditions as well"
            )
    if binding and not failure:
        yield errors.invalid(f"{path}.bindingFailureConditions", [], "must be set if bindingConditions is set")
    if failure and not binding:
        yield errors.invalid(f"{path}.bindingConditions", [], "must be set if bindingFailureConditions is set")


def node_operations(operations: list[str], path: str) -> Errors:
    """Validates the node operations that a driver declares it does not need."""

    def check(operation: str, at: str) -> Errors:
        if operation not in OPERATIONS:
            yield errors.not_supported(at, operation, OPERATIONS, declarative=True)

    yield from fields.limited(operations, len(operations), path, check, key=fields.itself, declarative=True)
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        yield errors.invalid(
            path, operations, "must contain NodeUnprepareResources if it contains NodePrepareResources"
        )


def counter_set(counter_set: Object, path: str) -> Errors:
    """Validates a shared counter set."""
    yield from fields.required_label(counter_set["name"], f"{path}.name")
    yield from _counters(mapping(counter_set.get("counters")), f"{path}.counters")


def counter_consumption(consumption: Object, path: str) -> Errors:
    yield from fields.required_label(consumption["counterSet"], f"{path}.counterSet", declarative=True)
    yield from _counters(mapping(consumption.get("counters")), f"{path}.counters")
    yield from fields.limited(
        consumption.get("compatibilityGroups") or [],
        MAX_COMPATIBILITY_GROUPS,
        f"{path}.compatibilityGroups",
        lambda group, at: fields.label(group, at, declarative=True),
        key=fields.itself,
        declarative=True,
    )


def _counters(counters: Object, path: str) -> Errors:
    if not counters:
        yield errors.required(path, declarative=True)
    elif len(counters) > MAX_COUNTERS:
        yield errors.too_many(path, len(counters), MAX_COUNTERS, declarative=True)
    else:
        for name in counters:
            if not names.is_label(name):
                yield errors.invalid(path, name, names.LABEL_DETAIL, declarative=True)


def is_node_resource(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def node_allocatable(device: Object, path: str) -> Errors:
    """Validates the node-allocatable resources (cpu, memory, huge pages) of a device."""
    capacity = mapping(device.get("capacity"))
    for resource, entry in device["nodeAllocatableResources"].items():
        at = f"{path}.nodeAllocatableResources[{resource}]"
        if not is_node_resource(resource):
            yield errors.invalid(at, resource, "must be cpu, memory or hugepages-<size>")
        if entry.get("mapping") is None and entry.get("overhead") is None:
            yield errors.required(at, "at least one of `mapping` or `overhead` is required")
        if entry.get("mapping") is not None:
            yield from _mapping(entry["mapping"], f"{at}.mapping", capacity)
        if entry.get("overhead") is not None:
            yield from _overhead(entry["overhead"], f"{at}.overhead")


def _mapping(mapping: Object, path: str, capacity: Object) -> Errors:
    yield from fields.union(mapping, ("capacityKey", "deviceMultiplier"), path)
    key, multiplier = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    if key is not None:
        if not key:
            yield errors.invalid(f"{path}.capacityKey", key, "must not be empty")
        elif key not in capacity:
            yield errors.not_found(f"{path}.capacityKey", key)
        if multiplier is None:
            yield errors.required(f"{path}.capacityMultiplier", "needed with capacityKey")
    elif multiplier is not None:
        yield errors.required(f"{path}.capacityKey", "needed with capacityMultiplier")
    for member in ("capacityMultiplier", "deviceMultiplier"):
        if mapping.get(member) is not None and Quantity.parse(mapping[member]).sign() <= 0:
            yield errors.invalid(f"{path}.{member}", mapping[member], "must be greater than zero")


def _overhead(overhead: Object, path: str) -> Errors:
    if overhead.get("perPod") is None and overhead.get("perContainer") is None:
        yield errors.invalid(path, overhead, "at least one of `perPod` or `perContainer` is required")
    for member in ("perPod", "perContainer"):
        if overhead.get(member) is not None and Quantity.parse(overhead[member]).sign() < 0:
            yield errors.invalid(f"{path}.{member}", overhead[member], "must not be negative")
