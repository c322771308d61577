"""Binding conditions: whether drivers report the devices of allocated claims as ready, so that pods can be bound."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from dray.api.objects import Object, key_of
from dray.api.resource_claims import allocation_of, results_of
from dray.api.times import seconds_of
from dray.scheduling.cluster.claim_assume_cache import ClaimAssumeCache


class Binding(Enum):
    """The state of the devices of an allocated claim."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"
    EXPIRED = "expired"


def binding_of_all(cache: ClaimAssumeCache, claims: Iterable[Object], now: float, timeout: float) -> Binding:
    """The state of the devices of all claims of a pod, from the newest versions of the claims."""
    worst = Binding.READY
    for claim in claims:
        current = cache.get(key_of(claim))
        state = binding_of(current, now, timeout) if current is not None else Binding.FAILED
        if state in (Binding.FAILED, Binding.EXPIRED):
            return state
        if state is Binding.PENDING:
            worst = state
    return worst


def problem_of_all(cache: ClaimAssumeCache, claims: Iterable[Object], now: float, timeout: float) -> str:
    """Why the devices of a pod's claims will not become ready."""
    for claim in claims:
        key = key_of(claim)
        current = cache.get(key)
        if current is None:
            return f"ResourceClaim {key[0]}/{key[1]} not found"
        if problem := binding_problem(current, now, timeout):
            return problem
    return "device binding failed"


def binding_of(claim: Object, now: float, timeout: float) -> Binding:
    """The state of a claim, by the conditions that drivers set on its devices."""
    ready = True
    for result, conditions in _conditional(claim):
        true = {condition["type"] for condition in conditions if condition.get("status") == "True"}
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
    """Why binding failed, in the words of Kubernetes; empty if it has not failed."""
    name = claim["metadata"]["name"]
    state = binding_of(claim, now, timeout)
    if state is Binding.EXPIRED:
        return f"device binding timeout: claim={name}"
    if state is not Binding.FAILED:
        return ""
    for result, conditions in _conditional(claim):
        for condition in conditions:
            failures = result.get("bindingFailureConditions") or ()
            if condition.get("status") == "True" and condition["type"] in failures:
                reason, message = condition.get("reason") or "", condition.get("message") or ""
                return f'device binding failed: claim={name}, reason={reason}, message="{message}"'
    return f"device binding failed: claim={name}"


def _conditional(claim: Object) -> list[tuple[Object, list[Object]]]:
    """The device results that have binding conditions, each with the conditions that its driver set."""
    results = results_of(claim)
    waiting = [result for result in results if result.get("bindingConditions")]
    if not waiting:
        return []
    reported = {
        (device.get("driver"), device.get("pool"), device.get("device")): device.get("conditions") or []
        for device in claim["status"].get("devices") or ()
    }
    return [(result, reported.get((result["driver"], result["pool"], result["device"])) or []) for result in waiting]
