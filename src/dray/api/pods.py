"""Pods: readers for phase, node, group, containers and resource claims.

PodGroups have the same `spec.resourceClaims` and `status.resourceClaimStatuses`; the readers of claims take both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dray.api.objects import Object, is_deleting, is_true, mapping, mappings, status_of

TERMINAL_PHASES: Final = ("Succeeded", "Failed")
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Annotation of the mirror pod of a static pod: the hash of the static pod."""
HASH_ANNOTATION: Final = "kubernetes.io/config.hash"
"""Annotation of a static pod: the hash of its file."""

_ENTRY: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")


def phase_of(pod: Mapping[str, Any]) -> str:
    return str(status_of(pod).get("phase") or "")


def is_terminal(pod: Mapping[str, Any]) -> bool:
    """Returns True if the pod's containers have ended and will not run again."""
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


def is_done(pod: Mapping[str, Any]) -> bool:
    """Returns True if the pod will not use its claims again: it has ended, or was deleted before it was bound."""
    return is_terminal(pod) or (is_deleting(pod) and not node_of(pod))


def is_active(pod: Mapping[str, Any]) -> bool:
    """Returns True if the pod has not ended and is not being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_ready(pod: Mapping[str, Any]) -> bool:
    return is_true(pod, "Ready")


def container_statuses(pod: Mapping[str, Any]) -> list[Object]:
    """Returns the statuses of the containers, then of the init containers."""
    status = status_of(pod)
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def restarts(pod: Mapping[str, Any]) -> int:
    return sum(int(status.get("restartCount") or 0) for status in container_statuses(pod))


def node_of(pod: Mapping[str, Any]) -> str:
    """Returns the name of the pod's node; "" if it is not bound."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def group_name(pod: Mapping[str, Any]) -> str:
    """Returns the name of the pod's PodGroup; "" if it has none."""
    named = (pod.get("spec") or {}).get("schedulingGroup")
    return str(mapping(named).get("podGroupName") or "") if named else ""


def containers_of(spec: Mapping[str, Any]) -> list[Object]:
    """Returns the containers in the order of Kubernetes: init containers first."""
    return [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]


def claim_entries(owner: Mapping[str, Any]) -> list[Object]:
    return (owner.get("spec") or {}).get("resourceClaims") or []


def claim_names(owner: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the claim names in the status, by entry; None for an entry that needs no claim."""
    statuses = (owner.get("status") or {}).get("resourceClaimStatuses")
    return {status["name"]: status.get("resourceClaimName") for status in statuses} if statuses else {}


def extended_claim(pod: Mapping[str, Any]) -> str:
    """Returns the name of the claim for the pod's extended resources; "" if there is none."""
    return str(mapping(status_of(pod).get("extendedResourceClaimStatus")).get("resourceClaimName") or "")


def claims_used(owner: Mapping[str, Any]) -> Iterator[tuple[Object, str]]:
    """Yields (entry, claim name) for entries whose claim exists."""
    names = claim_names(owner)
    for entry in claim_entries(owner):
        name = entry.get("resourceClaimName") or names.get(entry["name"])
        if name:
            yield entry, name


def entries_without_claim(owner: Mapping[str, Any]) -> Iterator[Object]:
    """Yields the entries with a template for which the status names no claim yet."""
    entries = claim_entries(owner)
    if entries:
        names = claim_names(owner)
        for entry in entries:
            if entry.get("resourceClaimTemplateName") and entry["name"] not in names:
                yield entry


def has_entry(group: Mapping[str, Any], entry: Object) -> bool:
    """Whether a PodGroup has the same entry as one of its pods: same name, same claim or template."""
    wanted = [entry.get(member) or "" for member in _ENTRY]
    return any([group_entry.get(member) or "" for member in _ENTRY] == wanted for group_entry in claim_entries(group))
