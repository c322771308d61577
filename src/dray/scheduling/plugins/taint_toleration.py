"""TaintToleration: pods stay off nodes with taints that they do not tolerate, and rather off PreferNoSchedule ones."""

from __future__ import annotations

from typing import Final

from dray.allocation import taints
from dray.scheduling.cycle import Cycle
from dray.scheduling.model import Node
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip
from dray.scheduling.reasons import Code, UntoleratedTaint
from dray.scheduling.state import State
from dray.scheduling.status import Status
from dray.scheduling.tolerations import count_intolerable, is_repelled


class TaintToleration(Plugin):
    depends_on = Depends.NODE
    weight = 3

    def __init__(self, state: State) -> None:
        self._state = state

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        if node.taints and is_repelled(node.taints, cycle.pod.requirements.tolerations):
            return _STATUS
        return None

    def details(self, cycle: Cycle, node: Node) -> tuple[UntoleratedTaint, ...]:
        tolerations = cycle.pod.requirements.tolerations
        return tuple(
            UntoleratedTaint(str(each.get("key")), str(each.get("value") or ""), str(each.get("effect")))
            for each in taints.effective(node.taints)
            if not tolerations.cover(each)
        )

    def prescore(self, cycle: Cycle) -> Skip | None:
        return None if self._state.soft_taints else SKIP

    def score(self, cycle: Cycle, node: Node) -> int:
        return count_intolerable(node.taints, cycle.pod.requirements.tolerations) if node.taints else 0

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        most = max(scores.values(), default=0)
        return {number: 100 - 100 * count // most for number, count in scores.items()} if most else {}


_STATUS: Final = Status.of(TaintToleration.name, Code.UNTOLERATED_TAINT, resolvable=False)
