"""Binding conditions: whether the devices of allocated claims are ready for pods to be bound, as drivers say."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from dray.api.objects import Object, key_of
from dray.api.resource_claims import allocation_of, results_of
from dray.api.times import seconds_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache


class Binding(Enum):
    """How far the devices of an allocated claim are with getting ready."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"
    EXPIRED = "expired"


def binding_of_all(cache: ClaimAssumeCache, claims: Iterable[Object], now: float, timeout: float) -> Binding:
    """How far the devices of a pod's claims are, as the claims stand now."""
    worst = Binding.READY
    for claim in claims:
        current = cache.get(key_of(claim))
        found = binding_of(current, now, timeout) if current is not None else Binding.FAILED
        if found in (Binding.FAILED, Binding.EXPIRED):
            return found
        if found is Binding.PENDING:
            worst = found
    return worst


def problem_of_all(cache: ClaimAssumeCache, claims: Iterable[Object], now: float, timeout: float) -> str:
    """Why the devices of a pod's claims will not get ready."""
    for claim in claims:
        key = key_of(claim)
        current = cache.get(key)
        if current is None:
            return f"ResourceClaim {key[0]}/{key[1]} not found"
        if problem := binding_problem(current, now, timeout):
            return problem
    return "device binding failed"


def binding_of(claim: Object, now: float, timeout: float) -> Binding:
    """Whether the conditions that drivers set on a claim's devices let pods be bound."""
    ready = True
    for result, conditions in _conditional(claim):
        true = {each["type"] for each in conditions if each.get("status") == "True"}
        if true & set(result.get("bindingFailureConditions") or ()):
            return Binding.FAILED
        ready = ready and true >= set(result["bindingConditions"])
    if ready:
        return Binding.READY
    began = seconds_of((allocation_of(claim) or {}).get("allocationTimestamp"))
    if began is not None and now - began > timeout:
        return Binding.EXPIRED
    return Binding.PENDING


def binding_problem(claim: Object, now: float, timeout: float) -> str:
    """In the words of Kubernetes; nothing where there may yet be none."""
    name = claim["metadata"]["name"]
    found = binding_of(claim, now, timeout)
    if found is Binding.EXPIRED:
        return f"device binding timeout: claim={name}"
    if found is not Binding.FAILED:
        return ""
    for result, conditions in _conditional(claim):
        for each in conditions:
            if each.get("status") == "True" and each["type"] in (result.get("bindingFailureConditions") or ()):
                reason, message = each.get("reason") or "", each.get("message") or ""
                return f'device binding failed: claim={name}, reason={reason}, message="{message}"'
    return f"device binding failed: claim={name}"


def _conditional(claim: Object) -> list[tuple[Object, list[Object]]]:
    """The results that have binding conditions, each with the conditions that its driver set."""
    results = results_of(claim)
    waiting = [result for result in results if result.get("bindingConditions")]
    if not waiting:
        return []
    reported = {
        (each.get("driver"), each.get("pool"), each.get("device")): each.get("conditions") or []
        for each in claim["status"].get("devices") or ()
    }
    return [(each, reported.get((each["driver"], each["pool"], each["device"])) or []) for each in waiting]
