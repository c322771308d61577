"""Pods as the scheduler knows them, and what a pod requires of a node apart from its devices.

`Requirements` are compiled once for all pods of one signature.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Key, Object, bounded, mapping
from dray.api.quantity import INT32_MAX, INT32_MIN
from dray.scheduling.model.group import GroupKey
from dray.scheduling.model.node_terms import NodeTerms
from dray.scheduling.model.pod_terms import PodTerms
from dray.scheduling.model.tolerations import Tolerations

Port = tuple[str, str, int]
"""Protocol, address (0.0.0.0 for all), number."""

Amounts = Mapping[str, int]
"""By resource name: cpu in thousandths, everything else in whole units, rounded up."""
PODS = "pods"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Requirements:
    """Compared by identity: `Signatures` gives the same one to pods of one signature."""

    requests: Amounts
    """Without what is zero; extended resources too."""
    extended: bool
    """Whether it asks for resources with a domain: those that a class may serve are among them."""
    scoring: Amounts
    """cpu and memory with the amounts that scoring assumes where a container asks for none."""
    ports: frozenset[Port]
    """Host ports."""
    tolerations: Tolerations
    node_selector: Mapping[str, str]
    node_affinity: NodeTerms | None
    """The required one."""
    preferred_node_affinity: NodeTerms
    preferred_weights: tuple[int, ...]
    """Of its terms."""
    images: tuple[str, ...]
    """One for each container, normalised with a tag."""
    pod_terms: PodTerms
    """Affinity, anti-affinity and spread constraints, which speak of other pods."""
    signs: tuple[Hashable, ...] = ()
    """What plugins add to the signature."""

    def select(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and required node affinity allow a node of that name with those labels."""
        for key, value in self.node_selector.items():
            if labels.get(key) != value:
                return False
        return self.node_affinity is None or self.node_affinity.any(name, labels)


_NONE: Final[Mapping[str, str]] = {}


@dataclass(eq=False, slots=True)
class Pod:
    """Compared by identity; `document` is the newest that was seen."""

    key: Key
    uid: str
    document: Object
    requirements: Requirements
    priority: int
    preempts: bool
    """Whether it may have others removed: preemptionPolicy is not Never."""
    created: str
    extra: Amounts = field(default_factory=dict)
    """What its devices take from the node beside its own requests."""
    group: GroupKey | None = None
    """The group that it says it belongs to."""
    joins: bool = False
    """Whether it names a group or a queue: of others, neither is asked anything."""
    ghost: bool = False
    """Whether it only stands for a place that is kept for another."""
    admitted: dict[str, str] = field(default_factory=dict)
    """The queue that the pod was charged to when it came to its node, by the label of its front end."""

    @property
    def is_assigned(self) -> bool:
        """Whether the server knows that it is on its node."""
        return bool(self.document["spec"].get("nodeName"))

    def admitted_to(self, label: str) -> str:
        """The queue of a front end that a pod on a node was admitted to; empty where it was to none."""
        return self.admitted.get(label, "") if self.admitted and self.is_assigned else ""

    @property
    def labels(self) -> Mapping[str, str]:
        return self.document["metadata"].get("labels") or _NONE

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.document["metadata"].get("annotations") or _NONE


def own_priority(document: Object) -> int:
    """The one that the pod says."""
    return bounded(document["spec"].get("priority"), INT32_MIN, INT32_MAX)


def start_of(pod: Pod) -> str:
    """When it started, as far as is known."""
    return str(mapping(pod.document.get("status")).get("startTime") or pod.created)
