"""The quota of a queue: the amounts that a ClusterQueue of Kueue or a queue of KAI has, and another amount for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.api.objects import Object, key_of, mapping, mappings, metadata_of, spec_of, text
from dray.api.quantity import Quantity, QuantityError
from dray.web.actions.action import Action, Request, Result, choice, entry
from dray.web.view import BadCall, Call

_KAI: Final = ("gpu", "cpu", "memory")


def amounts(queue: Object) -> dict[str, str]:
    """By FLAVOR/RESOURCE in Kueue, by resource in KAI."""
    if "resourceGroups" in spec_of(queue):
        return {f"{flavor}/{each.get('name')}": str(each.get("nominalQuota", "0")) for flavor, each in _entries(queue)}
    resources = mapping(spec_of(queue).get("resources"))
    return {name: str(mapping(resources.get(name)).get("quota", 0)) for name in _KAI if name in resources}


def _entries(queue: Object) -> Iterator[tuple[str, Object]]:
    for group in mappings(spec_of(queue).get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            for each in mappings(flavor.get("resources")):
                yield text(flavor.get("name")), each


def changed(queue: Object, name: str, amount: str) -> Object:
    """The merge patch that sets an amount; raises BadCall."""
    if name not in amounts(queue):
        raise BadCall(f"queue {key_of(queue)[1]} has no quota of {name[:80]!r}")
    try:
        number = Quantity.parse(amount)
    except QuantityError:
        raise BadCall(f"{amount!r} is no amount; write 8, 500m or 64Gi") from None
    version = metadata_of(queue).get("resourceVersion")
    spec = _kueue(queue, name, str(number)) if "resourceGroups" in spec_of(queue) else _kai(name, number)
    # The version keeps what others changed meanwhile.
    return {"metadata": {"resourceVersion": version}, "spec": spec}


def _kueue(queue: Object, name: str, amount: str) -> Object:
    """Merge patches replace lists as a whole."""

    def resource(flavor: Object, each: Object) -> Object:
        return {**each, "nominalQuota": amount} if f"{flavor.get('name')}/{each.get('name')}" == name else each

    def renewed(flavor: Object) -> Object:
        return {**flavor, "resources": [resource(flavor, each) for each in mappings(flavor.get("resources"))]}

    groups = mappings(spec_of(queue).get("resourceGroups"))
    return {
        "resourceGroups": [
            {**group, "flavors": [renewed(each) for each in mappings(group.get("flavors"))]} for group in groups
        ]
    }


def _kai(name: str, number: Quantity) -> Object:
    value = number.as_float()
    return {"resources": {name: {"quota": int(value) if value.is_integer() else value}}}


async def set_quota(request: Request) -> Result:
    client, resource = request.call.client, request.resource
    queue = await client.get(resource, request.name)
    name, amount = request.field("resource"), request.field("amount")
    before = amounts(queue).get(name, "")
    made = await client.patch(resource, request.name, changed(queue, name, amount), options=request.writing)
    done = "would be" if request.dry_run else "is now"
    notes = ["Pods that run keep what they have; a smaller quota lets others reclaim it."]
    return Result(f"Quota of {request.name} {done} {amounts(made).get(name)} {name} instead of {before}", notes)


def _fields(kind: str) -> Any:
    def fields(call: Call, name: str) -> list[Object] | None:
        queue = call.question.model.table(kind).get(name)
        if queue is None or not call.question.sight.sees(kind):
            return None
        found = amounts(queue)
        first = next(iter(found.values()), "")
        amount = {**entry("amount", "Quota", first), "follows": "resource", "values": found}
        return [choice("resource", "Resource", list(found)), amount] if found else None

    return fields


ACTIONS: Final = (
    Action("quota", "ClusterQueue", "Change quota…", "patch", "clusterqueues", set_quota, _fields("clusterqueues")),
    Action("kai-quota", "Queue", "Change quota…", "patch", "kaiqueues", set_quota, _fields("kaiqueues")),
)
