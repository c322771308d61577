"""KueueNodeFlavors: which flavors of a ClusterQueue pods get on a node."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.objects import Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.kueue.flavors import Flavors
from dray.scheduling.quota.kueue.kinds import ClusterQueue
from dray.scheduling.quota.queue_policy import Ask, Asset, FlavorChoice


class KueueNodeFlavors:
    def __init__(self, flavors: Flavors, queues: Mapping[str, ClusterQueue]) -> None:
        self._flavors = flavors
        self._queues = queues

    @property
    def is_tolerant(self) -> bool:
        return self._flavors.tolerant

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        found = {}
        known = self._queues[queue]
        for name, amount in amounts.items():
            flavors = self._flavors.of(known, name)
            flavor = self._flavors.on(known, name, node) or (flavors[0] if flavors else "")
            found[Asset(flavor, name)] = amount
        return found

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        queue = self._queues[ask.queue]
        flavors = tuple([self._flavors.on(queue, name, node) for name in ask.wanted])
        return FlavorChoice(flavors, self._flavors.rank(queue, ask, node))

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        known = self._queues.get(queue)
        return known is not None and self._flavors.tolerates(known, node, taint)

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        return self._flavors.tell_apart(labels, others)
