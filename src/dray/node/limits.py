"""Limits of a container, as a runtime sets them, from the resources of its spec. Pure."""

from __future__ import annotations

from dray.api.objects import Object, mapping
from dray.api.quantity import Quantity
from dray.node.runtimes.configs import Limits


def limits_of(container: Object) -> Limits:
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    return Limits(
        _millis(limits["cpu"]) if limits.get("cpu") is not None else None,
        _millis(requests["cpu"]) if requests.get("cpu") is not None else 0,
        Quantity.parse(str(limits["memory"])).value() if limits.get("memory") is not None else None,
    )


def _millis(value: object) -> int:
    return Quantity.parse(str(value)).scaled(-3)
