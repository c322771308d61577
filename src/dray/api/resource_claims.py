"""ResourceClaims: their constants and limits, and readers for what they ask for, have and are reserved for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api.objects import Object, finalizers_of, mapping

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim that has devices from being deleted."""
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the entry of the pod it was made for."""
EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""On a claim that the scheduler made for a pod's extended resources."""

MAX_CONSUMERS: Final = 256
"""Entries in `status.reservedFor`."""
MAX_DEVICES: Final = 32
"""Devices in one allocation."""


def allocation_of(claim: Mapping[str, Any]) -> Object | None:
    return (claim.get("status") or {}).get("allocation")


def results_of(claim: Mapping[str, Any]) -> list[Object]:
    """The devices that are allocated to the claim."""
    return allocation_results(allocation_of(claim))


def allocation_results(allocation: Mapping[str, Any] | None) -> list[Object]:
    """The devices of an allocation."""
    return (allocation.get("devices") or {}).get("results") or [] if allocation else []


def devices_of(claim: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Driver, pool and name of each device that is allocated to the claim."""
    return [(result["driver"], result["pool"], result["device"]) for result in results_of(claim)]


def reserved_for(claim: Mapping[str, Any]) -> list[Object]:
    """References to the pods and groups that may use the claim."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_protected(claim: Mapping[str, Any]) -> bool:
    return FINALIZER in finalizers_of(claim)


def requests_of(spec: Mapping[str, Any]) -> list[Object]:
    """The device requests in the spec of a claim."""
    return mapping(spec.get("devices")).get("requests") or []


def alternatives_of(request: Mapping[str, Any]) -> Sequence[Object]:
    """The ways to serve a device request: `exactly`, or the subrequests of `firstAvailable` in order of preference."""
    exactly = request.get("exactly")
    return (exactly,) if exactly is not None else request.get("firstAvailable") or ()


def uses_admin_access(spec: Mapping[str, Any]) -> bool:
    return any(mapping(request.get("exactly")).get("adminAccess") for request in requests_of(spec))
