"""What the devices of a pod's claims take from the node itself, added up for the pod.

What is stated for a pod as a whole has to cover that too, and then nothing comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.allocation import Allocation, Inventory, NodeCharge, charge
from dray.allocation.usage import claim_key
from dray.api import pod_requests as requests
from dray.api.objects import Object, mapping, mappings, sequence
from dray.api.quantity import Quantity
from dray.scheduling.claim_book import ClaimBook
from dray.scheduling.model import Amounts, Pod
from dray.scheduling.wishes import Wishes


class Unpayable(Exception):
    """What the devices take cannot be had for this pod, on no node."""


def of(
    inventory: Inventory, book: ClaimBook, pod: Pod, wishes: Wishes, allocation: Allocation | None
) -> tuple[Amounts, tuple[Object, ...]]:
    """The amounts, and what the pod's status says of them; raises Unpayable or ChargeError."""
    total: dict[str, int] = {}
    statuses = []
    for entry, claim, results in _claims(wishes, allocation):
        taken = charge(inventory, results)
        if not (taken.mapping or taken.per_pod or taken.per_container):
            continue
        name = claim["metadata"]["name"]
        if not taken.sharable and _used_by_others(book, claim, pod):
            raise Unpayable(
                f"node allocatable resource claim {name} has a mapped device and cannot be shared across pods"
            )
        containers = _containers(pod.document, entry)
        for resource, amount in taken.demand(len(containers)).items():
            total[resource] = total.get(resource, 0) + _whole(resource, amount)
        statuses.append(_status(name, containers, taken))
    spec = pod.document["spec"]
    _check_covered(spec, total)
    return _on_top(spec, total), tuple(sorted(statuses, key=lambda status: str(status["resourceClaimName"])))


def _claims(wishes: Wishes, allocation: Allocation | None) -> list[tuple[str, Object, list[Object]]]:
    """(name in the pod, claim, results) of each of its claims."""
    decided = dict(zip(map(id, wishes.open), allocation.results, strict=False)) if allocation else {}
    found = []
    for entry, claim in zip(wishes.entries, wishes.claims, strict=True):
        result = decided.get(id(claim)) or (claim.get("status") or {}).get("allocation") or {}
        found.append((entry["name"], claim, (result.get("devices") or {}).get("results") or []))
    return found


def _containers(document: Object, entry: str) -> list[str]:
    spec = document["spec"]
    return [
        container["name"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        if any(each.get("name") == entry for each in (container.get("resources") or {}).get("claims") or ())
    ]


def _used_by_others(book: ClaimBook, claim: Object, pod: Pod) -> bool:
    """Now, or as soon as what was decided is written."""
    users = [each.get("uid") for each in (claim.get("status") or {}).get("reservedFor") or ()]
    return any(uid != pod.uid for uid in (*users, *book.promised(claim_key(claim))))


def _check_covered(spec: Object, total: Amounts) -> None:
    stated, own = requests.stated(spec), requests.of_containers(spec)
    for resource in sorted(total.keys() & stated.keys()):
        if own.get(resource, 0) + total[resource] > stated[resource]:
            raise Unpayable(
                f"pod level request for {resource} is insufficient to cover the aggregated container and"
                " node-allocatable DRA requests"
            )


def _on_top(spec: Object, total: Amounts) -> dict[str, int]:
    stated = requests.stated(spec)
    return {resource: amount for resource, amount in total.items() if resource not in stated}


def _whole(resource: str, amount: Quantity) -> int:
    """As requests are counted: thousandths of a cpu, whole units of everything else, rounded up."""
    return requests.whole({resource: amount.nanos}).get(resource, 0)


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


def amounts_of(document: Object) -> dict[str, int]:
    """The amounts again, from what a pod's status says."""
    total: dict[str, int] = {}
    for status in mappings(mapping(document.get("status")).get("nodeAllocatableResourceClaimStatuses")):
        containers = len(sequence(status.get("containers")))
        parts = [(each, each.get("quantity"), 1) for each in mappings(status.get("mapping"))]
        for each in mappings(status.get("overhead")):
            parts += [(each, each.get("perPod"), 1), (each, each.get("perContainer"), containers)]
        for each, text, times in parts:
            resource = each.get("name")
            if isinstance(resource, str) and text is not None:
                total[resource] = total.get(resource, 0) + times * requests.amounts({resource: text}).get(resource, 0)
    return _on_top(document["spec"], total) if total else total
