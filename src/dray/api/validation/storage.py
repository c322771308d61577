"""storage.k8s.io: classes of volumes, and what CSI drivers, nodes and attachments say of themselves."""

from __future__ import annotations

from dray.api import errors, names
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.api.repeats import repeats
from dray.api.rules import Rules
from dray.api.validation import fields, metadata
from dray.api.validation.fields import Errors

_RECLAIM = ["Delete", "Retain"]
_BINDING = ["Immediate", "WaitForFirstConsumer"]
_LIFECYCLES = ["Ephemeral", "Persistent"]
_GROUP_POLICIES = ["File", "None", "ReadWriteOnceWithFSType"]
_MOST_PARAMETERS = 512
_PARAMETER_BYTES = 256 * 1024
_LONGEST_NODE_ID = 192


def validate_class(storage_class: Object, rules: Rules) -> Errors:
    yield from _provisioner(storage_class["provisioner"], "provisioner")
    yield from _parameters(mapping(storage_class.get("parameters")), "parameters")
    yield from fields.enum(storage_class.get("reclaimPolicy"), _RECLAIM, "reclaimPolicy")
    yield from fields.enum(storage_class.get("volumeBindingMode"), _BINDING, "volumeBindingMode", required=True)
    for index, term in enumerate(storage_class.get("allowedTopologies") or []):
        yield from _topology(term.get("matchLabelExpressions") or [], f"allowedTopologies[{index}]")


def _provisioner(name: str, path: str) -> Errors:
    if not name:
        yield errors.required(path)
    elif not names.is_label_key(name.lower()):
        yield errors.invalid(path, name, names.LABEL_KEY_DETAIL)


def _parameters(parameters: Object, path: str) -> Errors:
    if len(parameters) > _MOST_PARAMETERS:
        yield errors.too_long(f"{path}.parameters", _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield errors.invalid(path, "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in parameters.items()) > _PARAMETER_BYTES:
        yield errors.too_long(path, _PARAMETER_BYTES)


def _topology(expressions: list[Object], path: str) -> Errors:
    seen = set()
    for index, expression in enumerate(expressions):
        at = f"{path}.matchLabelExpressions[{index}]"
        values = expression["values"] or []
        if not values:
            yield errors.required(f"{at}.values")
        for position, value in enumerate(values):
            if value in values[:position]:
                yield errors.duplicate(f"{at}.values[{position}]", value)
        if not names.is_label_key(expression["key"]):
            yield errors.invalid(f"{at}.key", expression["key"], names.LABEL_KEY_DETAIL)
        if expression["key"] in seen:
            yield errors.duplicate(f"{at}.key", expression["key"])
        seen.add(expression["key"])


def validate_class_update(storage_class: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_class(storage_class, rules)
    yield from _unchanged(storage_class, old, ("parameters", "provisioner", "reclaimPolicy"))
    binding = "volumeBindingMode"
    yield from fields.immutable(storage_class.get(binding), old.get(binding), binding)


def _unchanged(obj: Object, old: Object, members: tuple[str, ...]) -> Errors:
    for member in members:
        if (obj.get(member) or None) != (old.get(member) or None):
            yield errors.forbidden(member, f"updates to {member} are forbidden.")


def validate_driver(driver: Object, rules: Rules) -> Errors:
    spec = driver["spec"]
    yield from fields.driver(driver["metadata"].get("name", ""), "metadata.name")
    for member in ("attachRequired", "podInfoOnMount", "storageCapacity"):
        if spec.get(member) is None:
            yield errors.required(f"spec.{member}")
    for mode in spec.get("volumeLifecycleModes") or []:
        if mode not in _LIFECYCLES:
            yield errors.not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
    yield from fields.enum(spec.get("fsGroupPolicy"), _GROUP_POLICIES, "spec.fsGroupPolicy", required=True)
    audiences = [request["audience"] for request in spec.get("tokenRequests") or []]
    for index, is_repeated in enumerate(repeats(audiences)):
        if is_repeated:
            yield errors.duplicate(f"spec.tokenRequests[{index}].audience", audiences[index])


def validate_driver_update(driver: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_driver(driver, rules)
    for member in ("attachRequired", "volumeLifecycleModes"):
        yield from fields.immutable(driver["spec"].get(member), old["spec"].get(member), f"spec.{member}")


def validate_node(node: Object, rules: Rules) -> Errors:
    seen = set()
    for index, driver in enumerate(node["spec"]["drivers"] or []):
        at = f"spec.drivers[{index}]"
        yield from fields.driver(driver["name"], f"{at}.name")
        if driver["name"] in seen:
            yield errors.duplicate(f"{at}.name", driver["name"])
        seen.add(driver["name"])
        yield from _node_driver(driver, at)


def _node_driver(driver: Object, path: str) -> Errors:
    if not driver["nodeID"]:
        yield errors.required(f"{path}.nodeID")
    elif names.size(driver["nodeID"]) > _LONGEST_NODE_ID:
        detail = f"must be {_LONGEST_NODE_ID} characters or less"
        yield errors.invalid(f"{path}.nodeID", driver["nodeID"], detail)
    keys = driver["topologyKeys"] or []
    for position, key in enumerate(keys):
        if not key:
            yield errors.required(f"{path}.topologyKeys")
        elif not names.is_label_key(key):
            yield errors.invalid(f"{path}.topologyKeys", key, names.LABEL_KEY_DETAIL)
        if key in keys[:position]:
            yield errors.duplicate(f"{path}.topologyKeys", key)
    count = mapping(driver.get("allocatable")).get("count")
    if count is not None and count < 0:
        yield errors.invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0")


def validate_node_update(node: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_node(node, rules)
    before = {driver["name"]: driver for driver in old["spec"]["drivers"] or []}
    for index, driver in enumerate(node["spec"]["drivers"] or []):
        earlier = before.get(driver["name"])
        if earlier is not None and _fixed(driver) != _fixed(earlier):
            yield errors.invalid(f"spec.drivers[{index}]", driver, "field is immutable")


def _fixed(driver: Object) -> Object:
    """How many volumes fit may change, and nothing else."""
    return {member: value for member, value in driver.items() if member != "allocatable"}


def validate_capacity(capacity: Object, rules: Rules) -> Errors:
    yield from fields.subdomain(capacity["storageClassName"], "storageClassName")
    if capacity.get("nodeTopology") is not None:
        yield from metadata.label_selector(capacity["nodeTopology"], "nodeTopology")
    for member in ("capacity", "maximumVolumeSize"):
        amount = capacity.get(member)
        if amount is not None and Quantity.parse(amount).sign() < 0:
            yield errors.invalid(member, amount, "must be greater than or equal to 0")


def validate_capacity_update(capacity: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_capacity(capacity, rules)
    for member in ("nodeTopology", "storageClassName"):
        yield from fields.immutable(capacity.get(member), old.get(member), member)


def validate_attachment(attachment: Object, rules: Rules) -> Errors:
    spec = attachment["spec"]
    yield from fields.driver(spec["attacher"], "spec.attacher")
    yield from fields.subdomain(spec["nodeName"], "spec.nodeName")
    source = spec["source"]
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        yield errors.required("spec.source", one)
    elif volume is not None and inline is not None:
        yield errors.forbidden("spec.source", one)
    elif volume is not None:
        yield from fields.subdomain(volume, "spec.source.persistentVolumeName")


def validate_attachment_update(attachment: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_attachment(attachment, rules)
    yield from fields.immutable(attachment["spec"], old["spec"], "spec")


def validate_attributes_class(attributes: Object, rules: Rules) -> Errors:
    yield from _provisioner(attributes["driverName"], "driverName")
    if not attributes.get("parameters"):
        yield errors.required("parameters", "must contain at least one key/value pair")
    yield from _parameters(mapping(attributes.get("parameters")), "parameters")


def validate_attributes_class_update(attributes: Object, old: Object, rules: Rules) -> Errors:
    yield from validate_attributes_class(attributes, rules)
    yield from _unchanged(attributes, old, ("driverName", "parameters"))
