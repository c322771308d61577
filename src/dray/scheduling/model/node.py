"""Node: what a node offers, and the sum of what the pods on it request.

A `Node` is changed in place when a pod is added or removed, and never copied. Two host ports collide if protocol and
number are equal, and the addresses are equal or one of them is 0.0.0.0.
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
"""Capacity of a node that was written by hand without a capacity."""


class TakenPorts:
    """Host ports in use, with the number of pods that use each."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], dict[str, int]] = {}
        """Number of pods by protocol and number, then by address."""

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
    """`allocatable`, `labels`, `taints` and `images` come from the Node object, the sums of resources from pods."""

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
        """The index of the node in `State.numbered`, as long as the node exists."""
        self.document: Object | None = None
        """The Node object; None if only pods name the node."""
        self.labels: Mapping[str, str] = {}
        self.taints: tuple[Object, ...] = ()
        self.unschedulable = False
        self.allocatable: Amounts = {}
        self.images: Mapping[str, int] = {}
        """The sizes of images, by every name of the image."""
        self.pods: dict[str, Pod] = {}
        """The pods on the node, by uid."""
        self.requested: dict[str, int] = {}
        self.scoring: dict[str, int] = {}
        self.ports = TakenPorts()

    def read(self, document: Object | None) -> None:
        """Reads a Node object, or None if it was deleted. The sums of what pods use do not change."""
        known = document or {}
        spec, status = mapping(known.get("spec")), mapping(known.get("status"))
        allocatable, images = amounts(status.get("allocatable")), _images(status)
        self.document = document
        self.labels = mapping(mapping(known.get("metadata")).get("labels"))
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
