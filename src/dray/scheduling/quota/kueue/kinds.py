"""Queues of `kueue.x-k8s.io`: flavors, queues, cohorts and priorities; a pod names its queue by a label.

The module reads the fields that decide how much a queue may use and where. `ClusterQueue.ignored` lists fields that
have no effect here, so that users can be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from dray.api.objects import Key, Object, annotations_of, bounded, mapping, mappings, strings, text, walk
from dray.api.pod_requests import amounts
from dray.api.quantity import INT32_MAX, INT32_MIN, Quantity, QuantityError
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.tolerations import Tolerations
from dray.scheduling.quota.quota_tree import Asset, Quota

API_GROUP: Final = "kueue.x-k8s.io"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
POD_GROUP_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
KINDS: Final = ("ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort", "WorkloadPriorityClass")
STRATEGIES: Final = "dray.dev/preemption-strategies"
"""An annotation of the topmost Cohort: the preemption strategies of fair sharing."""
HALF_LIFE: Final = "dray.dev/usage-half-life-seconds"
SAMPLING: Final = "dray.dev/usage-sampling-interval-seconds"
"""Annotations of a ClusterQueue with usage-based admission: half-life and sampling interval of the usage."""
UNCOVERED_CLASSES: Final = "dray.dev/uncovered-device-classes"
"""An annotation of a ClusterQueue with quota for devices: `allow` admits pods with devices of classes that no quota
covers, and does not count these devices."""
# The upper bound of a usage that is read from a status.
_MOST_USED: Final = 2.0**100
_TAINT: Final = ("key", "value", "effect")
# Values of whenCanPreempt with which the search for a flavor ends at the first in which pods can be evicted.
_STOPS: Final = ("MayStopSearch", "Preempt")


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
    """Whether the first waiting workload holds up the workloads behind it (StrictFIFO)."""
    stopped: bool
    namespaces: Object | None
    """A label selector of the namespaces whose pods may use the queue; None: no namespace may."""
    ignored: tuple[str, ...]
    """Fields that have no effect here, with explanations."""
    reclaims: str = "Never"
    """reclaimWithinCohort: Never, LowerPriority or Any."""
    preempts: str = "Never"
    """withinClusterQueue: Never, LowerPriority or LowerOrNewerEqualPriority."""
    borrows: str = "Never"
    """borrowWithinCohort.policy: Never or LowerPriority."""
    borrows_below: int | None = None
    """borrowWithinCohort.maxPriorityThreshold: pods above this priority are not evicted."""
    drains: bool = False
    """Whether running pods of the queue are evicted (stopPolicy HoldAndDrain)."""
    weight: float = 1.0
    fair: bool = False
    """Whether the queue has a field `fairSharing`."""
    checks: tuple[str, ...] = ()
    """Admission checks, which no controller answers here."""
    avoids_borrowing: bool = False
    """Whether a later flavor without borrowing is preferred to an earlier flavor with borrowing."""
    preempts_in_first_flavor: bool = False
    """Whether the first flavor in which pods can be evicted is used, instead of the best such flavor."""
    by_usage: bool = False
    """Whether pods of LocalQueues with less usage are admitted first."""
    half_life: float = 0.0
    """The number of seconds after which past usage counts half."""
    sampling: float = 0.0
    """The number of seconds between two samples of the usage."""
    allows_uncovered_classes: bool = False
    covering: Mapping[str, ResourceGroup] = field(default_factory=dict)
    """The resource group that covers each resource, by name of the resource."""

    def group_of(self, resource: str) -> ResourceGroup | None:
        return self.covering.get(resource)


@dataclass(frozen=True, slots=True)
class LocalQueue:
    cluster_queue: str
    stopped: bool
    drains: bool = False
    weight: float = 1.0
    consumed: Mapping[str, float] = field(default_factory=dict)
    """The usage in the status of the LocalQueue."""
    consumed_at: str = ""
    """The time of the usage in the status of the LocalQueue."""


@dataclass(frozen=True, slots=True)
class Flavor:
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of the nodes of the flavor."""
    taints: tuple[Object, ...] = ()
    tolerations: Tolerations = field(default_factory=Tolerations)
    """The tolerations of pods that get the flavor."""
    topology: str = ""
    """The name of the Topology whose labels the nodes of the flavor have."""


def cluster_queue(document: Object) -> ClusterQueue:
    spec, notes = mapping(document.get("spec")), annotations_of(document)
    groups = mappings(spec.get("resourceGroups"))
    preemption = mapping(spec.get("preemption"))
    borrowing = mapping(preemption.get("borrowWithinCohort"))
    threshold = borrowing.get("maxPriorityThreshold")
    read = tuple(map(_resource_group, groups))
    return ClusterQueue(
        document["metadata"]["name"],
        text(spec.get("cohortName") or spec.get("cohort")),
        read,
        quotas(groups),
        spec.get("queueingStrategy") == "StrictFIFO",
        _is_stopped(spec),
        _selector(spec.get("namespaceSelector")),
        tuple(_ignored(spec)),
        reclaims=text(preemption.get("reclaimWithinCohort")) or "Never",
        preempts=text(preemption.get("withinClusterQueue")) or "Never",
        borrows=text(borrowing.get("policy")) or "Never",
        borrows_below=bounded(threshold, INT32_MIN, INT32_MAX) if threshold is not None else None,
        drains=spec.get("stopPolicy") == "HoldAndDrain",
        weight=weight(spec),
        fair="fairSharing" in spec,
        checks=tuple(_checks(spec)),
        avoids_borrowing=mapping(spec.get("flavorFungibility")).get("whenCanBorrow") == "TryNextFlavor",
        preempts_in_first_flavor=mapping(spec.get("flavorFungibility")).get("whenCanPreempt") in _STOPS,
        by_usage=mapping(spec.get("admissionScope")).get("admissionMode") == "UsageBasedAdmissionFairSharing",
        half_life=_seconds(notes.get(HALF_LIFE), 168 * 3600.0),
        sampling=_seconds(notes.get(SAMPLING), 300.0),
        allows_uncovered_classes=notes.get(UNCOVERED_CLASSES) == "allow",
        covering={name: group for group in reversed(read) for name in group.covered},
    )


def _resource_group(document: Object) -> ResourceGroup:
    return ResourceGroup(
        frozenset(strings(document.get("coveredResources"))),
        tuple(text(flavor.get("name")) for flavor in mappings(document.get("flavors"))),
    )


def _selector(value: Any) -> Object | None:
    """Returns the valid part of a label selector; None if there is no selector."""
    if not isinstance(value, dict):
        return None
    expressions = mappings(value.get("matchExpressions"))
    return {
        "matchLabels": mapping(value.get("matchLabels")),
        "matchExpressions": [{**entry, "values": strings(entry.get("values"))} for entry in expressions],
    }


def _checks(spec: Object) -> Iterator[str]:
    yield from strings(spec.get("admissionChecks"))
    strategy = mapping(spec.get("admissionChecksStrategy"))
    yield from (text(check.get("name")) for check in mappings(strategy.get("admissionChecks")))


def _seconds(value: Any, default: float) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return default
    return found if 0 <= found < inf else default


def weight(spec: Object) -> float:
    """Returns the weight of fair sharing; 1 if the weight is missing or invalid."""
    written = mapping(spec.get("fairSharing")).get("weight")
    try:
        found = Quantity.parse(str(written)).as_float() if written is not None else 1.0
    except QuantityError:
        return 1.0
    return max(0.0, found)


def flavor(document: Object) -> Flavor:
    spec = mapping(document.get("spec"))
    return Flavor(
        {key: text(value) for key, value in mapping(spec.get("nodeLabels")).items()},
        tuple({name: text(taint.get(name)) for name in _TAINT} for taint in mappings(spec.get("nodeTaints"))),
        Tolerations(mappings(spec.get("tolerations"))),
        text(spec.get("topologyName")),
    )


def strategies(document: Object) -> tuple[str, ...]:
    """Returns the preemption strategies of a Cohort; empty if it has no such annotation."""
    return tuple(name.strip() for name in annotations_of(document).get(STRATEGIES, "").split(",") if name.strip())


def local_queue(document: Object) -> LocalQueue:
    spec = mapping(document.get("spec"))
    known = walk(document, "status", "fairSharing", "admissionFairSharingStatus")
    return LocalQueue(
        text(spec.get("clusterQueue")),
        _is_stopped(spec),
        spec.get("stopPolicy") == "HoldAndDrain",
        weight(spec),
        dict(_fractions(mapping(known.get("consumedResources")))),
        text(known.get("lastUpdate")),
    )


def _fractions(written: Object) -> Iterator[tuple[str, float]]:
    """Yields resources with amounts in the units in which pods are counted; invalid quantities are left out."""
    for name, quantity in written.items():
        with suppress(QuantityError):
            amount = Quantity.parse(str(quantity)).as_float() * (1000 if name == "cpu" else 1)
            yield name, min(max(0.0, amount), _MOST_USED)


def quotas(groups: list[Object]) -> dict[Asset, Quota]:
    """Returns the quotas in the resource groups of a queue or cohort."""
    found = {}
    for group in groups:
        for flavor in mappings(group.get("flavors")):
            for resource in mappings(flavor.get("resources")):
                name = text(resource.get("name"))
                limits = (resource.get("borrowingLimit"), resource.get("lendingLimit"))
                found[Asset(text(flavor.get("name")), name)] = Quota(
                    amount(name, resource.get("nominalQuota")) or 0, *(amount(name, limit) for limit in limits)
                )
    return found


def amount(resource: str, quantity: Any) -> int | None:
    """Returns a quantity in the units in which pods are counted; None if there is no quantity."""
    return amounts({resource: quantity}).get(resource, 0) if quantity is not None else None


def _is_stopped(spec: Object) -> bool:
    return spec.get("stopPolicy") in ("Hold", "HoldAndDrain")


def _ignored(spec: Object) -> Iterator[str]:
    borrowing = mapping(mapping(spec.get("preemption")).get("borrowWithinCohort"))
    if "fairSharing" in spec and borrowing.get("policy") not in (None, "Never"):
        yield "spec.preemption.borrowWithinCohort: fair sharing decides which pods are evicted"
    fungibility = mapping(spec.get("flavorFungibility"))
    if fungibility.get("whenCanPreempt") in _STOPS:
        yield "spec.flavorFungibility.whenCanPreempt: no pod is evicted while another flavor has quota left"
    if fungibility.get("preference") not in (None, "BorrowingOverPreemption"):
        yield "spec.flavorFungibility.preference"
    if spec.get("concurrentAdmissionPolicy"):
        yield "spec.concurrentAdmissionPolicy"


def local_of(pod: Pod) -> Key:
    """The LocalQueue that the pod names."""
    return pod.key[0], pod.labels.get(QUEUE_LABEL, "")
