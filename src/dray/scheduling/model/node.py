"""Nodes as the scheduler knows them: what each offers, and the sum of what the pods on it take.

A `Node` is changed in place, one pod at a time, and never copied. Host ports collide where protocol and number are the
same and the addresses are too, or one of them stands for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from dray.api.objects import Object, bounded, mapping, mappings, strings
from dray.api.pod_requests import amounts
from dray.api.quantity import INT64_MAX
from dray.scheduling.model.pod import Amounts, Pod, Port

EVERYWHERE: Final = "0.0.0.0"
DEFAULT_CAPACITY: Final = {"cpu": "64", "memory": "256Gi", "pods": "110"}
"""Capacity of a node that was written by hand and does not say."""


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
