"""Admission of pods by their node: one that the node has no room for, or that does not want it, is not run.

The scheduler asks the same before it binds a pod. It may be bound by hand, or by a scheduler that knew less; two
schedulers may have given away the same room. A pod that is refused fails, with the kubelet's reason and message. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dray.api.objects import Object, mapping, spec_of
from dray.scheduling.core import pods
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import PODS, Pod
from dray.scheduling.model.signatures import Signatures

_STANDARD = ("cpu", "memory", "ephemeral-storage")
_PREDICATES = {
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "TaintToleration": "node(s) had taints that the pod didn't tolerate",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: str
    message: str


class PodAdmission:
    def __init__(self) -> None:
        self._signatures = Signatures()

    def refusal(self, pod: Object, node: Object, others: Iterable[Object]) -> Refusal | None:
        """Returns why the node refuses to run the pod beside the `others`; None if it runs the pod."""
        system = mapping(spec_of(pod).get("os")).get("name")
        if system not in (None, "linux"):
            return Refusal("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
        if spec_of(pod).get("hostUsers") is False:
            # Pod Security lets these pods run as root, because root is mapped to a plain user in a user namespace.
            return Refusal("UserNamespacesNotSupported", "The node has no user namespaces for pods: remove hostUsers")
        room = Node(str(node["metadata"]["name"]), 0)
        room.read(node)
        for other in others:
            room.add(pods.read(other, self._signatures))
        return next(_problems(pods.read(pod, self._signatures), room), None)


def _problems(pod: Pod, node: Node) -> Iterator[Refusal]:
    """Yields the reasons against the pod, in the order of a kubelet."""
    required = pod.requirements
    yield from _shortages(pod, node)
    failed = {
        "NodeAffinity": not required.select(node.name, node.labels),
        "NodePorts": bool(node.ports) and node.ports.collide(required.ports),
        "TaintToleration": any(
            taint.get("effect") == "NoExecute" and not required.tolerations.cover(taint) for taint in node.taints
        ),
    }
    for name, has_failed in failed.items():
        if has_failed:
            yield Refusal(name, f"Predicate {name} failed: {_PREDICATES[name]}")


def _shortages(pod: Pod, node: Node) -> Iterator[Refusal]:
    allocatable = node.allocatable
    wanted = {PODS: 1}
    for requests in (pod.requirements.requests, pod.extra):
        for name, amount in requests.items():
            wanted[name] = wanted.get(name, 0) + amount
    used = {**node.requested, PODS: len(node.pods)}
    # Extended resources may be missing on the node: devices serve them.
    counted = [PODS, *(name for name in _STANDARD if name in wanted)]
    counted += [name for name in wanted if name not in counted and name in allocatable]
    for name in counted:
        taken, most = used.get(name, 0), allocatable.get(name, 0)
        if wanted[name] > most - taken:
            amounts = f"requested: {wanted[name]}, used: {taken}, capacity: {most}"
            yield Refusal(f"OutOf{name}", f"Node didn't have enough resource: {name}, {amounts}")
