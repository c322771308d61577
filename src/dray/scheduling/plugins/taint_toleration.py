"""TaintToleration: rejects nodes with untolerated taints, and prefers nodes with few PreferNoSchedule taints."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from dray.allocation import taints
from dray.api.objects import Object, labels_of
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, UntoleratedTaint
from dray.scheduling.model.status import Status
from dray.scheduling.model.tolerations import count_intolerable, is_repelled
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip


class TaintToleration(Plugin):
    depends_on = Depends.NODE
    weight = 3

    def __init__(self, state: State) -> None:
        self._state = state

    def sign(self, document: Object) -> Hashable:
        """Returns namespace and queues of the pod, since flavors of a queue may add tolerations to its pods."""
        queues = self._state.queues
        if not queues.served or not (tolerant := queues.tolerant):
            return None
        labels = labels_of(document)
        names = tuple(name for label in tolerant if (name := labels.get(label)))
        return (document["metadata"].get("namespace"), *names) if names else None

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        repelled = node.taints and is_repelled(node.taints, cycle.pod.requirements.tolerations)
        return _STATUS if repelled and untolerated(self._state, cycle.pod, node) else None

    def details(self, cycle: Cycle, node: Node) -> tuple[UntoleratedTaint, ...]:
        return tuple(
            UntoleratedTaint(str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect")))
            for taint in untolerated(self._state, cycle.pod, node)
        )

    def prescore(self, cycle: Cycle) -> Skip | None:
        return None if self._state.soft_taints else SKIP

    def score(self, cycle: Cycle, node: Node) -> int:
        return count_intolerable(node.taints, cycle.pod.requirements.tolerations) if node.taints else 0

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        most = max(scores.values(), default=0)
        return {number: 100 - 100 * count // most for number, count in scores.items()} if most else {}


def untolerated(state: State, pod: Pod, node: Node) -> list[Object]:
    """Returns the taints that reject the pod. The pod's node class and the flavors of its queue may tolerate taints."""
    requirements, classes = pod.requirements, state.node_classes
    return [
        taint
        for taint in taints.effective(node.taints)
        if not requirements.tolerations.cover(taint)
        and not classes.tolerates(requirements, taint)
        and not state.queues.tolerates(pod, node, taint)
    ]


_STATUS: Final = Status.of(TaintToleration.name, Code.UNTOLERATED_TAINT, resolvable=False)
