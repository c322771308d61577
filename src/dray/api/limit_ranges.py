"""LimitRanges: what they fill in for containers, and what pods, containers and volume claims break of them.

Amounts of a pod as a whole are those that quotas count. Messages are those of Kubernetes' LimitRanger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dray.api.objects import Object, mapping, mappings, spec_of, walk
from dray.api.pod_requests import requests
from dray.api.quantity import Format, Quantity
from dray.api.quota.charges import limits_as_requests

ANNOTATION = "kubernetes.io/limit-ranger"
Amounts = Mapping[str, Quantity]
_MEMBERS = ("requests", "limits")


def of_type(limit_ranges: Iterable[Object], kind: str) -> list[Object]:
    items = (item for range_ in limit_ranges for item in mappings(spec_of(range_).get("limits")))
    return [item for item in items if item.get("type") == kind]


def fill_in(pod: Object, limit_ranges: Iterable[Object]) -> None:
    """Sets missing requests and limits of containers, with an annotation on the pod."""
    items = of_type(limit_ranges, "Container")
    notes = []
    for member, title in (("initContainers", "init container"), ("containers", "container")):
        for container in pod["spec"].get(member) or ():
            notes += _fill_container(container, title, items)
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: "LimitRanger plugin set: " + "; ".join(notes)}


def _fill_container(container: Object, title: str, items: list[Object]) -> list[str]:
    resources = container["resources"] = dict(mapping(container.get("resources")))
    notes = []
    for member, source in zip(_MEMBERS, ("defaultRequest", "default"), strict=True):
        stated = mapping(resources.get(member))
        missing: Object = {}
        for item in items:
            missing = {**mapping(item.get(source)), **missing}
        added = {name: amount for name, amount in missing.items() if name not in stated}
        if added:
            resources[member] = {**stated, **added}
            notes.append(f"{', '.join(sorted(added))} {member[:-1]} for {title} {container['name']}")
    return notes


def broken_by_pod(pod: Object, limit_ranges: list[Object]) -> list[str]:
    spec = pod["spec"]
    found: list[str] = []
    for item in of_type(limit_ranges, "Container"):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            stated, limits = (_read(walk(container, "resources", member)) for member in _MEMBERS)
            found += _broken(item, stated, limits)
    for item in of_type(limit_ranges, "Pod"):
        found += _broken(item, _of_pod(requests(spec)), _of_pod(requests(limits_as_requests(spec))))
    return found


def broken_by_volume(claim: Object, limit_ranges: list[Object]) -> list[str]:
    stated = _read(walk(claim, "spec", "resources", "requests"))
    found: list[str] = []
    for item in of_type(limit_ranges, "PersistentVolumeClaim"):
        for side in ("min", "max"):
            for name, bound in sorted(_read(mapping(item.get(side))).items()):
                found += _beyond(item, side, name, bound, {"request": stated.get(name)}, needed="request")
    return found


def _read(written: Object) -> Amounts:
    return {name: Quantity.parse(amount) for name, amount in written.items()}


def _of_pod(amounts: Mapping[str, int]) -> Amounts:
    binary = ("memory", "ephemeral-storage")
    return {
        name: Quantity(amount, -3 if name == "cpu" else 0, Format.BINARY_SI if name in binary else Format.DECIMAL_SI)
        for name, amount in amounts.items()
    }


def _broken(item: Object, stated: Amounts, limits: Amounts) -> Iterator[str]:
    for side, needed in (("min", "request"), ("max", "limit")):
        for name, bound in sorted(_read(mapping(item.get(side))).items()):
            amounts = {"request": stated.get(name), "limit": limits.get(name)}
            yield from _beyond(item, side, name, bound, amounts, needed=needed)
    for name, ratio in sorted(_read(mapping(item.get("maxLimitRequestRatio"))).items()):
        yield from _beyond_ratio(item, name, ratio, stated.get(name), limits.get(name))


def _beyond(
    item: Object, side: str, name: str, bound: Quantity, amounts: Mapping[str, Quantity | None], *, needed: str
) -> Iterator[str]:
    """The amount that is `needed` must be there; of the others only those that are there count."""
    said = f"{side}imum {name} usage per {item['type']} is {bound.canonical()}"
    if amounts[needed] is None:
        yield f"{said}.  No {needed} is specified"
        return
    for what in sorted(amounts, key=lambda each: each != needed):
        amount = amounts[what]
        if amount is not None and (amount < bound if side == "min" else amount > bound):
            yield f"{said}, but {what} is {amount.canonical()}"
            return


def _beyond_ratio(
    item: Object, name: str, ratio: Quantity, stated: Quantity | None, limit: Quantity | None
) -> Iterator[str]:
    said = f"{name} max limit to request ratio per {item['type']} is {ratio.canonical()}, but"
    if stated is None or stated.nanos == 0:
        yield f"{said} no request is specified or request is 0"
    elif limit is None or limit.nanos == 0:
        yield f"{said} no limit is specified or limit is 0"
    elif limit.nanos * 10**9 > ratio.nanos * stated.nanos:
        yield f"{said} provided ratio is {limit.nanos / stated.nanos:f}"
