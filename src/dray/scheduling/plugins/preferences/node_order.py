"""NodeOrder: prefers the node that came first (`first-fit`), to compare other policies with."""

from __future__ import annotations

from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.plugin import Depends, Plugin


class NodeOrder(Plugin):
    depends_on = Depends.NODE

    def score(self, cycle: Cycle, node: Node) -> int:
        return -node.number
