"""Pod: a pod as the scheduler keeps it, and its requirements of a node apart from devices.

`Requirements` are compiled once for all pods with the same signature.
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
"""A host port: protocol, address (0.0.0.0 for all), number."""

Amounts = Mapping[str, int]
"""Amounts by resource name: cpu in thousandths, everything else in whole units, rounded up."""
PODS = "pods"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Requirements:
    """Compared by identity: pods with the same signature have the same object (`Signatures`)."""

    requests: Amounts
    """Requests greater than zero, extended resources included."""
    extended: bool
    """Whether the pod requests a resource with a domain in its name, which a device class may serve."""
    scoring: Amounts
    """cpu and memory for scoring: containers without requests count with default amounts."""
    ports: frozenset[Port]
    """The host ports of the containers."""
    tolerations: Tolerations
    node_selector: Mapping[str, str]
    node_affinity: NodeTerms | None
    """The required node affinity."""
    preferred_node_affinity: NodeTerms
    preferred_weights: tuple[int, ...]
    """The weights of the terms of `preferred_node_affinity`."""
    images: tuple[str, ...]
    """The images of the containers, each with a tag."""
    pod_terms: PodTerms
    """Affinity, anti-affinity and topology spread constraints, which depend on other pods."""
    signs: tuple[Hashable, ...] = ()
    """Values that plugins added to the signature."""

    def select(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and required node affinity select a node with that name and those labels."""
        for key, value in self.node_selector.items():
            if labels.get(key) != value:
                return False
        return self.node_affinity is None or self.node_affinity.any(name, labels)


_NONE: Final[Mapping[str, str]] = {}


@dataclass(eq=False, slots=True)
class Pod:
    """Compared by identity; `document` is the newest version of the object."""

    key: Key
    uid: str
    document: Object
    requirements: Requirements
    priority: int
    preempts: bool
    """Whether the pod may preempt other pods: its preemptionPolicy is not Never."""
    created: str
    extra: Amounts = field(default_factory=dict)
    """Resources that the devices of the pod take from the node, in addition to the pod's requests."""
    group: GroupKey | None = None
    """The group that the pod names."""
    joins: bool = False
    """Whether the pod names a group or a queue; checks of groups and queues are skipped for other pods."""
    is_placeholder: bool = False
    """Whether the pod is a placeholder that reserves resources of a node for another pod."""
    admitted: dict[str, str] = field(default_factory=dict)
    """The queue that the pod was charged to when it was placed, by the label of the queue system."""

    @property
    def is_assigned(self) -> bool:
        """Whether the pod has a node in the API server (spec.nodeName)."""
        return bool(self.document["spec"].get("nodeName"))

    def admitted_to(self, label: str) -> str:
        """The queue of a queue system that an assigned pod was admitted to; empty if none."""
        return self.admitted.get(label, "") if self.admitted and self.is_assigned else ""

    def update(self, document: Object) -> None:
        """Reads the newest document, whose requirements are the same."""
        self.document = document

    def admit(self, document: Object, queues: Mapping[str, str]) -> None:
        """Reads the document of an assigned pod, with the queues that it was admitted to, by label of the system."""
        self.document, self.admitted = document, dict(queues)

    def prioritize(self, priority: int) -> None:
        self.priority = priority

    def require(self, requirements: Requirements) -> None:
        """Sets the requirements that the pod has, after the meaning of its signature changed."""
        self.requirements = requirements

    def take_extra(self, extra: Amounts) -> None:
        """Sets the resources that devices of the pod take from the node where it is assumed."""
        self.extra = extra

    @property
    def labels(self) -> Mapping[str, str]:
        return self.document["metadata"].get("labels") or _NONE

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.document["metadata"].get("annotations") or _NONE


def own_priority(document: Object) -> int:
    """The priority in the pod's spec."""
    return bounded(document["spec"].get("priority"), INT32_MIN, INT32_MAX)


def start_of(pod: Pod) -> str:
    """The start time of a pod; its creation time if it has not started."""
    return str(mapping(pod.document.get("status")).get("startTime") or pod.created)
