"""NodeClassRanking: pods that name a node class (ComputeClass, NodePool) go to its best nodes first.

The rank of a node in its class outweighs all other scores. Nodes that match no rule of the class come last, or are
rejected if the class says so.
"""

from __future__ import annotations

from typing import Final

from dray.scheduling.cluster.compute_class import LABEL
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code, RuleMismatch
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip

# The weight exceeds the sum of all other scores of a node.
_STEP: Final = 1 << 40


class NodeClassRanking(Plugin):
    depends_on = Depends.NODE

    def __init__(self, state: State) -> None:
        self._classes = state.node_classes

    def prefilter(self, cycle: Cycle) -> Skip | None:
        classes = self._classes
        return None if classes.known and classes.concern(cycle.pod.requirements) else SKIP

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        if self._classes.rank(cycle.pod.requirements, node) is not None:
            return None
        return Status.of(self.name, Code.NODE_CLASS, node.labels.get(LABEL, ""), resolvable=False)

    def details(self, cycle: Cycle, node: Node) -> tuple[RuleMismatch, ...]:
        mismatch = self._classes.why_not(cycle.pod.requirements, node)
        return (mismatch,) if mismatch is not None else ()

    def score(self, cycle: Cycle, node: Node) -> int:
        if not self._classes.known or self.name in cycle.skipped:
            return 0
        return -_STEP * (self._classes.rank(cycle.pod.requirements, node) or 0)
