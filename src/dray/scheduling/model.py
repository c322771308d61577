"""Nodes and pods as the scheduler knows them.

`Requirements` are what a pod requires of a node apart from its devices, compiled once for all pods of one signature. A
`Node` adds up what the pods on it take; it is changed in place, one pod at a time, and never copied. Host ports collide
where protocol and number are the same and the addresses are too, or one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.api.objects import Key, Object, bounded, mapping, mappings, strings
from dray.api.pod_requests import amounts
from dray.api.quantity import INT32_MAX, INT32_MIN, INT64_MAX
from dray.scheduling.group_model import GroupKey
from dray.scheduling.node_terms import NodeTerms
from dray.scheduling.pod_terms import PodTerms
from dray.scheduling.tolerations import Tolerations

EVERYWHERE: Final = "0.0.0.0"

Port = tuple[str, str, int]
"""Protocol, address (0.0.0.0 for all), number."""

Amounts = Mapping[str, int]
"""By resource name: cpu in thousandths, everything else in whole units, rounded up."""
PODS = "pods"
DEFAULT_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
"""Of a node that was written by hand and does not say."""


class TakenPorts:
    """How many pods have each; none that nobody has."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], dict[str, int]] = {}
        """By protocol and number, then by address."""

    def __bool__(self) -> bool:
        return bool(self._addresses)

    def all(self) -> dict[Port, int]:
        return {
            (protocol, address, number): count
            for (protocol, number), addresses in self._addresses.items()
            for address, count in addresses.items()
        }

    def count(self, ports: Iterable[Port], sign: int) -> None:
        for protocol, address, number in ports:
            addresses = self._addresses.setdefault((protocol, number), {})
            addresses[address] = addresses.get(address, 0) + sign
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del self._addresses[protocol, number]

    def collide(self, wanted: Iterable[Port]) -> bool:
        for protocol, address, number in wanted:
            taken = self._addresses.get((protocol, number))
            if taken and (address == EVERYWHERE or EVERYWHERE in taken or address in taken):
                return True
        return False


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

    def read(self, document: Object) -> None:
        """Takes everything that the document says; what the pods take stays as it is."""
        spec, status = mapping(document.get("spec")), mapping(document.get("status"))
        allocatable, images = amounts(status.get("allocatable")), _images(status)
        self.document = document
        self.labels = mapping(mapping(document.get("metadata")).get("labels"))
        self.taints = tuple(mappings(spec.get("taints")))
        self.unschedulable = spec.get("unschedulable") is True
        self.allocatable = allocatable
        self.images = images

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: Pod) -> None:
        if self.pods.pop(pod.uid, None) is not None:
            self._count(pod, -1)

    def _count(self, pod: Pod, sign: int) -> None:
        _add(self.requested, pod.requirements.requests, sign)
        _add(self.scoring, pod.requirements.scoring, sign)
        if pod.extra:
            _add(self.requested, pod.extra, sign)
            _add(self.scoring, {name: pod.extra[name] for name in ("cpu", "memory") if name in pod.extra}, sign)
        if pod.requirements.ports:
            self.ports.count(pod.requirements.ports, sign)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        left = total.get(name, 0) + sign * amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def _images(status: Object) -> Mapping[str, int]:
    sizes = {}
    for image in mappings(status.get("images")):
        size = bounded(image.get("sizeBytes"), 0, INT64_MAX)
        for name in strings(image.get("names")):
            sizes[name] = size
    return sizes
