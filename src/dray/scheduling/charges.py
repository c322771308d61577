"""What the devices of a pod's claims take from the node itself, added up for the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.allocation import Allocation, Inventory, NodeCharge, charge
from dray.api.quantity import Quantity
from dray.scheduling.model import Amounts, Object, Pod
from dray.scheduling.wishes import Wishes


class Unshareable(Exception):
    """A claim that is a part of the node itself serves one pod only."""


def of(
    inventory: Inventory, pod: Pod, wishes: Wishes, allocation: Allocation | None
) -> tuple[Amounts, tuple[Object, ...]]:
    """The amounts, and what the pod's status says of them; raises Unshareable or ChargeError."""
    total: dict[str, int] = {}
    statuses = []
    for entry, claim, results in _claims(pod, wishes, allocation):
        taken = charge(inventory, results)
        if not (taken.mapping or taken.per_pod or taken.per_container):
            continue
        name = claim["metadata"]["name"]
        if not taken.sharable and _used_by_others(claim, pod):
            raise Unshareable(
                f"node allocatable resource claim {name} has a mapped device and cannot be shared across pods"
            )
        containers = _containers(pod.document, entry)
        for resource, amount in taken.demand(len(containers)).items():
            total[resource] = total.get(resource, 0) + _whole(resource, amount)
        statuses.append(_status(name, containers, taken))
    return total, tuple(sorted(statuses, key=lambda status: str(status["resourceClaimName"])))


def _claims(pod: Pod, wishes: Wishes, allocation: Allocation | None) -> list[tuple[str, Object, list[Object]]]:
    """(name in the pod, claim, results) of each of its claims."""
    decided = dict(zip(map(id, wishes.open), allocation.results, strict=False)) if allocation else {}
    entries = [entry["name"] for entry in pod.document["spec"].get("resourceClaims") or ()]
    found = []
    for entry, claim in zip(entries, wishes.claims, strict=False):
        result = decided.get(id(claim)) or (claim.get("status") or {}).get("allocation") or {}
        found.append((entry, claim, (result.get("devices") or {}).get("results") or []))
    return found


def _containers(document: Object, entry: str) -> list[str]:
    spec = document["spec"]
    return [
        container["name"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        if any(each.get("name") == entry for each in (container.get("resources") or {}).get("claims") or ())
    ]


def _used_by_others(claim: Object, pod: Pod) -> bool:
    return any(each.get("uid") != pod.uid for each in (claim.get("status") or {}).get("reservedFor") or ())


def _whole(resource: str, amount: Quantity) -> int:
    """As requests are counted: thousandths of a cpu, whole units of everything else, rounded up."""
    unit = 10**6 if resource == "cpu" else 10**9
    return -(-amount.nanos // unit)


def _status(name: str, containers: list[str], taken: NodeCharge) -> Object:
    status: Object = {"resourceClaimName": name}
    if containers:
        status["containers"] = containers
    if taken.mapping:
        status["mapping"] = [{"name": resource, "quantity": str(amount)} for resource, amount in taken.mapping.items()]
    resources = sorted({*taken.per_pod, *taken.per_container})
    if resources:
        status["overhead"] = [
            {"name": resource, **_text("perPod", taken.per_pod, resource)}
            | _text("perContainer", taken.per_container, resource)
            for resource in resources
        ]
    return status


def _text(member: str, amounts: Mapping[str, Quantity], resource: str) -> Object:
    return {member: str(amounts[resource])} if resource in amounts else {}


def amounts_of(statuses: Sequence[Object]) -> dict[str, int]:
    """The amounts again, from what a pod's status says."""
    total: dict[str, int] = {}
    for status in statuses:
        parts = [(each["name"], each["quantity"], 1) for each in status.get("mapping") or ()]
        for each in status.get("overhead") or ():
            parts.append((each["name"], each.get("perPod"), 1))
            parts.append((each["name"], each.get("perContainer"), len(status.get("containers") or ())))
        for resource, text, times in parts:
            if text is not None:
                total[resource] = total.get(resource, 0) + times * _whole(resource, Quantity.parse(text))
    return total
