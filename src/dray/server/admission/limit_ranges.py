"""LimitRanger: gives containers the defaults of the namespace, and refuses what is out of its bounds."""

from __future__ import annotations

from dray.api import limit_ranges
from dray.api.objects import Object
from dray.api.pod_defaults import qos_class
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_LIMIT_RANGES = key_prefix("", "limitranges")


def limit_pod(attributes: Attributes) -> None:
    if attributes.old is not None and attributes.subresource != "resize":
        return
    found, pod = _of_namespace(attributes), attributes.obj
    if not found:
        return
    if attributes.old is None:
        limit_ranges.fill_in(pod, found)
        pod["status"]["qosClass"] = qos_class(pod["spec"])
    _refuse(attributes, limit_ranges.broken_by_pod(pod, found))


def limit_volume(attributes: Attributes) -> None:
    found = [] if attributes.subresource else _of_namespace(attributes)
    if found:
        _refuse(attributes, limit_ranges.broken_by_volume(attributes.obj, found))


def _of_namespace(attributes: Attributes) -> list[Object]:
    records = attributes.context.store.list(f"{_LIMIT_RANGES}{attributes.namespace}/").records
    return [documents.decode(record.value) for record in records]


def _refuse(attributes: Attributes, broken: list[str]) -> None:
    if broken:
        raise attributes.forbid(broken[0] if len(broken) == 1 else f"[{', '.join(broken)}]")
