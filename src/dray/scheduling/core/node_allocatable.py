"""Node-allocatable resources: the resources that the devices of a pod's claims take from the node, in total.

If the pod has requests at pod level, these have to cover the resources of its devices too; nothing is added to them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.allocation import Allocation, Inventory, NodeCharge, charge
from dray.api import pod_requests as requests
from dray.api.objects import Object, key_of, mappings, sequence, status_of
from dray.api.pods import containers_of
from dray.api.quantity import Quantity
from dray.api.resource_claims import allocation_of, allocation_results, reserved_for
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache
from dray.scheduling.core.cycle import PodClaims
from dray.scheduling.model.pod import Amounts, Pod
from dray.scheduling.model.reasons import Code, Reason


def taken(
    inventory: Inventory, cache: ClaimAssumeCache, pod: Pod, pod_claims: PodClaims, allocation: Allocation | None
) -> tuple[Amounts, tuple[Object, ...]] | Reason:
    """Returns the amounts and the entries for the pod's status; a Reason if the pod cannot have them on any node.
    Raises ChargeError."""
    total: dict[str, int] = {}
    statuses = []
    for entry, claim, results in _claims(pod_claims, allocation):
        node_charge = charge(inventory, results)
        if not (node_charge.mapping or node_charge.per_pod or node_charge.per_container):
            continue
        name = claim["metadata"]["name"]
        if not node_charge.sharable and _used_by_others(cache, claim, pod):
            return Reason(Code.MAPPED_DEVICE_SHARED, (name,))
        containers = _containers(pod.document, entry)
        for resource, amount in node_charge.demand(len(containers)).items():
            total[resource] = total.get(resource, 0) + _whole(resource, amount)
        statuses.append(_status(name, containers, node_charge))
    spec = pod.document["spec"]
    uncovered = _uncovered(spec, total)
    if uncovered:
        return Reason(Code.POD_REQUEST_TOO_SMALL, (uncovered,))
    return _on_top(spec, total), tuple(sorted(statuses, key=lambda status: str(status["resourceClaimName"])))


def _claims(pod_claims: PodClaims, allocation: Allocation | None) -> list[tuple[str, Object, list[Object]]]:
    """Returns for each claim of the pod its name in the pod, the claim and its device results."""
    decided = dict(zip(map(id, pod_claims.unallocated), allocation.results, strict=False)) if allocation else {}
    return [
        (entry["name"], claim, allocation_results(decided.get(id(claim)) or allocation_of(claim)))
        for entry, claim in zip(pod_claims.entries, pod_claims.claims, strict=True)
    ]


def _containers(document: Object, entry: str) -> list[str]:
    return [
        container["name"]
        for container in containers_of(document["spec"])
        if any(claim.get("name") == entry for claim in (container.get("resources") or {}).get("claims") or ())
    ]


def _used_by_others(cache: ClaimAssumeCache, claim: Object, pod: Pod) -> bool:
    """Whether the claim is reserved for other pods, or will be once decisions are written."""
    users = [consumer.get("uid") for consumer in reserved_for(claim)]
    return any(uid != pod.uid for uid in (*users, *cache.promised(key_of(claim))))


def _uncovered(spec: Object, total: Amounts) -> str:
    """Returns a resource of which the pod-level request is less than its containers and devices take; else empty."""
    stated, own = requests.stated(spec), requests.of_containers(spec)
    for resource in sorted(total.keys() & stated.keys()):
        if own.get(resource, 0) + total[resource] > stated[resource]:
            return resource
    return ""


def _on_top(spec: Object, total: Amounts) -> dict[str, int]:
    stated = requests.stated(spec)
    return {resource: amount for resource, amount in total.items() if resource not in stated}


def _whole(resource: str, amount: Quantity) -> int:
    """Returns an amount in the units of requests: thousandths of a cpu, whole units of other resources, rounded up."""
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
    """Returns the amounts that the status of a pod lists."""
    total: dict[str, int] = {}
    for status in mappings(status_of(document).get("nodeAllocatableResourceClaimStatuses")):
        containers = len(sequence(status.get("containers")))
        parts = [(entry, entry.get("quantity"), 1) for entry in mappings(status.get("mapping"))]
        for entry in mappings(status.get("overhead")):
            parts += [(entry, entry.get("perPod"), 1), (entry, entry.get("perContainer"), containers)]
        for entry, text, times in parts:
            resource = entry.get("name")
            if isinstance(resource, str) and text is not None:
                total[resource] = total.get(resource, 0) + times * requests.amounts({resource: text}).get(resource, 0)
    return _on_top(document["spec"], total) if total else total
