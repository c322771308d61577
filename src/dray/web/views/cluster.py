"""The cluster: devices by node and by model, with how many are in each state."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from dray.allocation.device_states import device_states
from dray.api.objects import Object, mapping
from dray.web.view import Question, View

_MODELS: Final = ("productName", "model", "type")


def model_of(device: Object) -> str:
    """What people call this kind of device."""
    attributes = mapping(device.get("attributes"))
    for name in _MODELS:
        if isinstance(value := mapping(attributes.get(name)).get("string"), str):
            return value
    return "device"


def derive(question: Question) -> Object:
    states = device_states(*(question.objects(kind) for kind in ("slices", "claims", "pods", "taintrules")))
    models: dict[str, Counter[str]] = defaultdict(Counter)
    nodes: dict[str, Counter[str]] = defaultdict(Counter)
    names: dict[str, set[str]] = defaultdict(set)
    for each in states:
        model = model_of(each.document)
        models[model][each.state] += 1
        nodes[each.node][each.state] += 1
        names[each.node].add(model)
    return {
        "models": models,
        "nodes": {name: {"states": counts, "models": sorted(names[name])} for name, counts in nodes.items()},
    }


VIEW: Final = View("cluster", ("slices", "claims", "pods", "taintrules"), derive)
