"""Priority: the name of a class becomes a number, for pods and for groups of them."""

from __future__ import annotations

from dray.api.catalogue import SCHEDULING_GROUP
from dray.api.objects import Object
from dray.api.validation.priority_classes import SYSTEM_CLASSES
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_CLASSES = key_prefix(SCHEDULING_GROUP, "priorityclasses")
_PREEMPT = "PreemptLowerPriority"


def resolve_for_pod(attributes: Attributes) -> None:
    spec = attributes.obj["spec"]
    found = _class(attributes, spec.get("priorityClassName", ""))
    if found is None:
        return
    spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found["value"]
    spec["preemptionPolicy"] = found.get("preemptionPolicy") or _PREEMPT


def resolve_for_group(attributes: Attributes) -> None:
    spec = attributes.obj["spec"]
    found = _class(attributes, spec.get("priorityClassName", ""))
    value = found["value"] if found else 0
    if spec.get("priority") not in (None, value):
        raise attributes.forbid(
            f"the integer value of priority ({spec['priority']}) must not be provided in {attributes.resource.kind}"
            f" spec; priority admission controller computed {value} from the given PriorityClass name"
        )
    spec["priority"] = value
    if found:
        spec["priorityClassName"] = found["metadata"]["name"]
    if found and attributes.context.gates["PodGroupPreemptionPolicy"]:
        spec["preemptionPolicy"] = found.get("preemptionPolicy") or _PREEMPT


def _class(attributes: Attributes, name: str) -> Object | None:
    """Returns the class by name, or the default class without a name; None if there is no default."""
    store = attributes.context.store
    if name in SYSTEM_CLASSES:
        return {"metadata": {"name": name}, "value": SYSTEM_CLASSES[name]}
    if name:
        record = store.get(_CLASSES + name)
        if record is None:
            raise attributes.forbid(f"no PriorityClass with name {name} was found")
        found: Object = documents.decode(record.value)
        return found
    return min(_defaults(attributes), key=lambda item: int(item["value"]), default=None)


def _defaults(attributes: Attributes) -> list[Object]:
    records = attributes.context.store.list(_CLASSES).records
    classes = (documents.decode(record.value) for record in records if b'"globalDefault"' in record.value)
    return [priority_class for priority_class in classes if priority_class.get("globalDefault") is True]


def check_default(attributes: Attributes) -> None:
    """Refuses a second default class."""
    if not attributes.obj.get("globalDefault"):
        return
    for other in _defaults(attributes):
        if other["metadata"]["name"] != attributes.name:
            name = other["metadata"]["name"]
            raise attributes.forbid(f"PriorityClass {name} is already marked as default. Only one default can exist")
