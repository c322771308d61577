"""Gangs: a warning for whoever asks that a group of pods be placed as a whole, which is not done yet."""

from __future__ import annotations

from dray.api.catalogue import SCHEDULING_GROUP
from dray.api.objects import Object
from dray.api.validation.workloads import every_template
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_GROUPS = key_prefix(SCHEDULING_GROUP, "podgroups")
_SEPARATELY = (
    "groups of pods are not yet scheduled as a whole: pods are placed one by one, "
    "and a part of the group may hold devices while the rest waits"
)


def warn(attributes: Attributes) -> None:
    if attributes.subresource:
        return
    find = _ASKS.get(attributes.kind)
    place = find(attributes) if find is not None else None
    if place:
        attributes.warnings.append(f"{place}: {_SEPARATELY}")


def _is_gang(holder: Object) -> bool:
    return ((holder.get("schedulingPolicy") or {}).get("gang")) is not None


def _group(attributes: Attributes) -> str | None:
    return "spec.schedulingPolicy.gang" if _is_gang(attributes.obj["spec"]) else None


def _workload(attributes: Attributes) -> str | None:
    return "spec" if any(map(_is_gang, every_template(attributes.obj["spec"]))) else None


def _job(attributes: Attributes) -> str | None:
    asked = _is_gang(attributes.obj["spec"].get("scheduling") or {})
    return "spec.scheduling.schedulingPolicy.gang" if asked else None


def _pod(attributes: Attributes) -> str | None:
    """A group that is no gang asks for nothing more than its pods do; one that is not there yet may be a gang."""
    name = (attributes.obj["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if not name:
        return None
    record = attributes.context.store.get(f"{_GROUPS}{attributes.namespace}/{name}")
    if record is not None and not _is_gang(documents.decode(record.value)["spec"]):
        return None
    return "spec.schedulingGroup"


_ASKS = {
    (SCHEDULING_GROUP, "PodGroup"): _group,
    (SCHEDULING_GROUP, "CompositePodGroup"): _group,
    (SCHEDULING_GROUP, "Workload"): _workload,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
}
