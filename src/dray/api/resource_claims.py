"""ResourceClaims: their constants and limits, and readers for what they ask for, have and are reserved for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api.objects import Object, finalizers_of, mapping

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Finalizer of claims with an allocation."""
POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a generated claim: the pod's entry that it belongs to."""
EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler created for a pod's extended resources."""

MAX_CONSUMERS: Final = 256
"""Maximum number of entries in `status.reservedFor`."""
MAX_DEVICES: Final = 32
"""Maximum number of devices in one allocation."""


def allocation_of(claim: Mapping[str, Any]) -> Object | None:
    return (claim.get("status") or {}).get("allocation")


def results_of(claim: Mapping[str, Any]) -> list[Object]:
    """Returns the device results of the claim's allocation; empty if it has none."""
    return allocation_results(allocation_of(claim))


def allocation_results(allocation: Mapping[str, Any] | None) -> list[Object]:
    """Returns the device results of an allocation."""
    return (allocation.get("devices") or {}).get("results") or [] if allocation else []


def devices_of(claim: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (driver, pool, device) for each allocated device."""
    return [(result["driver"], result["pool"], result["device"]) for result in results_of(claim)]


def reserved_for(claim: Mapping[str, Any]) -> list[Object]:
    """Returns the entries of `status.reservedFor`."""
    return (claim.get("status") or {}).get("reservedFor") or []


def is_protected(claim: Mapping[str, Any]) -> bool:
    return FINALIZER in finalizers_of(claim)


def requests_of(spec: Mapping[str, Any]) -> list[Object]:
    """Returns the device requests in the spec of a claim."""
    return mapping(spec.get("devices")).get("requests") or []


def alternatives_of(request: Mapping[str, Any]) -> Sequence[Object]:
    """Returns the alternatives of a request: `exactly`, or the subrequests of `firstAvailable` in order."""
    exactly = request.get("exactly")
    return (exactly,) if exactly is not None else request.get("firstAvailable") or ()


def uses_admin_access(spec: Mapping[str, Any]) -> bool:
    return any(mapping(request.get("exactly")).get("adminAccess") for request in requests_of(spec))
