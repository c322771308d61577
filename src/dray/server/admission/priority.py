"""Priority: the name of a class becomes a number, for pods and for groups of them."""

from __future__ import annotations

from typing import Any

from dray.api.catalogue import SCHEDULING_GROUP
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

Object = dict[str, Any]

_CLASSES = key_prefix(SCHEDULING_GROUP, "priorityclasses")
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPT = "PreemptLowerPriority"
_GROUPS = ((SCHEDULING_GROUP, "PodGroup"), (SCHEDULING_GROUP, "CompositePodGroup"))


def resolve(attributes: Attributes) -> None:
    if attributes.kind == ("", "Pod"):
        _resolve_pod(attributes)
    elif attributes.kind in _GROUPS:
        _resolve_group(attributes)


def _resolve_pod(attributes: Attributes) -> None:
    spec = attributes.obj["spec"]
    found = _class(attributes, spec.get("priorityClassName", ""))
    if found is None:
        return
    spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found["value"]
    spec["preemptionPolicy"] = found.get("preemptionPolicy") or _PREEMPT


def _resolve_group(attributes: Attributes) -> None:
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
    """The class by name; without a name the one that is the default, if there is one."""
    store = attributes.context.store
    if name in _SYSTEM:
        return {"metadata": {"name": name}, "value": _SYSTEM[name]}
    if name:
        record = store.get(_CLASSES + name)
        if record is None:
            raise attributes.forbid(f"no PriorityClass with name {name} was found")
        found: Object = documents.decode(record.value)
        return found
    defaults = [documents.decode(r.value) for r in store.list(_CLASSES).records if b'"globalDefault":true' in r.value]
    return min(defaults, key=lambda item: int(item["value"]), default=None)
