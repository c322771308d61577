"""Queues of `kueue.x-k8s.io`: ResourceFlavor, ClusterQueue, LocalQueue and Cohort; a pod names its queue by a label.

Read is what decides how much a queue may use and where. What else they say is listed, so that somebody can be told that
nobody acts on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import Object, mapping, mappings, strings, text
from dray.api.pod_requests import amounts
from dray.scheduling.quota_tree import Asset, Quota

API_GROUP: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
POD_GROUP_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
KINDS: Final = ("ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort")


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    name: str
    cohort: str
    groups: tuple[ResourceGroup, ...]
    quotas: Mapping[Asset, Quota]
    strict: bool
    """Whether the first that waits holds up those behind it."""
    stopped: bool
    namespaces: Object | None
    """Selects them by their labels; None for none at all."""
    ignored: tuple[str, ...]
    """Members that nobody acts on."""
    reclaims: str = "Never"
    """From whom it takes back what is its own: Never, LowerPriority or Any."""
    preempts: str = "Never"
    """Whom of its own it removes: Never, LowerPriority or LowerOrNewerEqualPriority."""

    def group_of(self, resource: str) -> ResourceGroup | None:
        return next((each for each in self.groups if resource in each.covered), None)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    cluster_queue: str
    stopped: bool


def cluster_queue(document: Object) -> ClusterQueue:
    spec = mapping(document.get("spec"))
    groups = mappings(spec.get("resourceGroups"))
    return ClusterQueue(
        document["metadata"]["name"],
        text(spec.get("cohortName") or spec.get("cohort")),
        tuple(
            ResourceGroup(
                frozenset(strings(each.get("coveredResources"))),
                tuple(text(flavor.get("name")) for flavor in mappings(each.get("flavors"))),
            )
            for each in groups
        ),
        quotas(groups),
        spec.get("queueingStrategy") == "StrictFIFO",
        _is_stopped(spec),
        spec.get("namespaceSelector"),
        tuple(_ignored(spec)),
        text(mapping(spec.get("preemption")).get("reclaimWithinCohort")) or "Never",
        text(mapping(spec.get("preemption")).get("withinClusterQueue")) or "Never",
    )


def local_queue(document: Object) -> LocalQueue:
    spec = mapping(document.get("spec"))
    return LocalQueue(text(spec.get("clusterQueue")), _is_stopped(spec))


def quotas(groups: list[Object]) -> dict[Asset, Quota]:
    """Of the resource groups of a queue or cohort."""
    found = {}
    for group in groups:
        for flavor in mappings(group.get("flavors")):
            for each in mappings(flavor.get("resources")):
                name = text(each.get("name"))
                limits = (each.get("borrowingLimit"), each.get("lendingLimit"))
                found[Asset(text(flavor.get("name")), name)] = Quota(
                    amount(name, each.get("nominalQuota")) or 0, *(amount(name, limit) for limit in limits)
                )
    return found


def amount(resource: str, quantity: Any) -> int | None:
    """In the units in which pods are counted; None where nothing is said."""
    return amounts({resource: quantity}).get(resource, 0) if quantity is not None else None


def _is_stopped(spec: Object) -> bool:
    return spec.get("stopPolicy") in ("Hold", "HoldAndDrain")


def _ignored(spec: Object) -> Iterator[str]:
    if mapping(mapping(spec.get("preemption")).get("borrowWithinCohort")).get("policy") not in (None, "Never"):
        yield "spec.preemption.borrowWithinCohort"
    for member in ("admissionChecks", "admissionChecksStrategy", "fairSharing", "admissionScope"):
        if spec.get(member):
            yield f"spec.{member}"
    if spec.get("stopPolicy") == "HoldAndDrain":
        yield "spec.stopPolicy: HoldAndDrain removes nobody here"
