"""OneFlavor: NodeFlavors of queues that charge the same on every node."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.objects import Object
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.queue_policy import Ask, Asset, FlavorChoice


class OneFlavor:
    is_tolerant = False

    def assets(
        self, queue: str, pod: Pod, node: Node, amounts: Mapping[str, int], *, reserved: bool = False
    ) -> dict[Asset, int]:
        return {Asset("", name): amount for name, amount in amounts.items()}

    def choice(self, ask: Ask, node: Node) -> FlavorChoice:
        return FlavorChoice((), 0)

    def tolerates(self, queue: str, node: Node, taint: Object) -> bool:
        return False

    def distinguishes(self, labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
        return False
