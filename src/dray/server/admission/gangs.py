"""Gangs: a warning for whoever asks that a group of pods be placed as a whole, which is not done yet."""

from __future__ import annotations

from dray.api.catalogue import SCHEDULING_GROUP
from dray.api.objects import Object, mapping
from dray.api.validation.workloads import every_template
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_GROUPS = key_prefix(SCHEDULING_GROUP, "podgroups")
_SEPARATELY = (
    "groups of pods are not yet scheduled as a whole: pods are placed one by one, "
    "and a part of the group may hold devices while the rest waits"
)


def _warn(attributes: Attributes, place: str) -> None:
    if not attributes.subresource:
        attributes.warnings.append(f"{place}: {_SEPARATELY}")


def warn_of_group(attributes: Attributes) -> None:
    if _is_gang(attributes.obj["spec"]):
        _warn(attributes, "spec.schedulingPolicy.gang")


def warn_of_workload(attributes: Attributes) -> None:
    if any(map(_is_gang, every_template(attributes.obj["spec"]))):
        _warn(attributes, "spec")


def warn_of_job(attributes: Attributes) -> None:
    if _is_gang(mapping(attributes.obj["spec"].get("scheduling"))):
        _warn(attributes, "spec.scheduling.schedulingPolicy.gang")


def warn_of_pod(attributes: Attributes) -> None:
    """A group that is no gang asks for nothing more than its pods do; one that is not there yet may be a gang."""
    name = mapping(attributes.obj["spec"].get("schedulingGroup")).get("podGroupName")
    if not name:
        return
    record = attributes.context.store.get(f"{_GROUPS}{attributes.namespace}/{name}")
    if record is None or _is_gang(documents.decode(record.value)["spec"]):
        _warn(attributes, "spec.schedulingGroup")


def _is_gang(holder: Object) -> bool:
    return mapping(holder.get("schedulingPolicy")).get("gang") is not None
