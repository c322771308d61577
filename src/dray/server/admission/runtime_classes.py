"""RuntimeClass admission: a pod has the overhead, the node selector and the tolerations of its class."""

from __future__ import annotations

from dray.api.cluster_kinds import NODE_GROUP
from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.server import documents
from dray.server.admission.attributes import Attributes
from dray.server.resources import key_prefix

_CLASSES = key_prefix(NODE_GROUP, "runtimeclasses")


def apply(attributes: Attributes) -> None:
    spec = attributes.obj["spec"]
    name = spec.get("runtimeClassName")
    overhead: Object = {}
    if name:
        record = attributes.context.store.get(_CLASSES + name)
        if record is None:
            raise attributes.forbid(f'pod rejected: RuntimeClass "{name}" not found')
        found: Object = documents.decode(record.value)
        overhead = mapping(mapping(found.get("overhead")).get("podFixed"))
        _schedule(attributes, mapping(found.get("scheduling")))
    given = mapping(spec.get("overhead"))
    if given and not overhead:
        raise attributes.forbid("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given and not _same(given, overhead):
        raise attributes.forbid("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)


def _same(given: Object, wanted: Object) -> bool:
    return given.keys() == wanted.keys() and all(
        Quantity.parse(given[name]) == Quantity.parse(wanted[name]) for name in given
    )


def _schedule(attributes: Attributes, scheduling: Object) -> None:
    spec = attributes.obj["spec"]
    selector = mapping(spec.get("nodeSelector"))
    wanted = mapping(scheduling.get("nodeSelector"))
    for key, value in wanted.items():
        if key in selector and selector[key] != value:
            raise attributes.forbid(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    tolerations = spec.get("tolerations") or []
    added = [toleration for toleration in scheduling.get("tolerations") or [] if toleration not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
