"""Nodes and pods as the scheduler knows them.

`Needs` is what a pod needs of a node apart from its devices, compiled once for all pods that need the same. A `Node`
adds up what the pods on it take; it is changed in place, one pod at a time, and never copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dray.api.objects import Object
from dray.scheduling.node_terms import NodeTerms
from dray.scheduling.ports import HostPorts, TakenPorts
from dray.scheduling.tolerations import Tolerations

Key = tuple[str, str]
"""Namespace, name."""

Amounts = Mapping[str, int]
"""By resource name: cpu in thousandths, everything else in whole units, rounded up."""

PODS = "pods"


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Needs:
    """Compared by identity: `Kinds` gives the same one to pods that need the same."""

    requests: Amounts
    """Without what is zero; extended resources too."""
    extended: bool
    """Whether it asks for resources with a domain: those that a class may serve are among them."""
    scoring: Amounts
    """cpu and memory with the amounts that scoring assumes where a container asks for none."""
    ports: HostPorts
    tolerations: Tolerations
    selector: Mapping[str, str]
    """spec.nodeSelector"""
    required: NodeTerms | None
    """The required node affinity."""
    preferred: NodeTerms
    weights: tuple[int, ...]
    """Of the preferred node affinity terms."""
    images: tuple[str, ...]
    """One for each container, normalised with a tag."""
    affinity: tuple[Object, ...]
    """Required pod affinity terms."""
    anti_affinity: tuple[Object, ...]
    preferred_affinity: tuple[tuple[int, Object], ...]
    """(weight, term); a negative weight is anti-affinity."""
    spread: tuple[Object, ...]
    """topologySpreadConstraints"""
    social: bool
    """Whether it depends on the pods that are there already, beyond what they take."""


@dataclass(eq=False, slots=True)
class Pod:
    """Compared by identity; `document` is the newest that was seen."""

    key: Key
    uid: str
    document: Object
    needs: Needs
    priority: int
    preempts: bool
    """Whether it may have others removed: preemptionPolicy is not Never."""
    created: str
    extra: Amounts = field(default_factory=dict)
    """What its devices take from the node beside its own requests."""

    @property
    def labels(self) -> Mapping[str, str]:
        return self.document["metadata"].get("labels") or {}


class Node:
    """`allocatable`, `labels`, `taints` and so on come from the document; the rest is the sum of the pods."""

    __slots__ = (
        "allocatable",
        "document",
        "images",
        "labels",
        "name",
        "number",
        "pods",
        "ports",
        "requested",
        "scoring",
        "taints",
        "unschedulable",
    )

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        """Its place among all nodes, for as long as it exists."""
        self.document: Object | None = None
        """None while only pods speak of it."""
        self.labels: Mapping[str, str] = {}
        self.taints: tuple[Object, ...] = ()
        self.unschedulable = False
        self.allocatable: Amounts = {}
        self.images: Mapping[str, int] = {}
        """Sizes by every name of the image."""
        self.pods: dict[str, Pod] = {}
        """By uid."""
        self.requested: dict[str, int] = {}
        self.scoring: dict[str, int] = {}
        self.ports = TakenPorts()

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        if self.pods.pop(pod.uid, None) is not None:
            self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        _add(self.requested, pod.needs.requests, sign)
        _add(self.scoring, pod.needs.scoring, sign)
        if pod.extra:
            _add(self.requested, pod.extra, sign)
            _add(self.scoring, {name: pod.extra[name] for name in ("cpu", "memory") if name in pod.extra}, sign)
        if pod.needs.ports:
            self.ports.count(pod.needs.ports, sign)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        left = total.get(name, 0) + sign * amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def key_of(document: Object) -> Key:
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def labels_of(document: Object) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def names(keys: Iterable[Key]) -> str:
    return ", ".join(f"{namespace}/{name}" for namespace, name in keys)
