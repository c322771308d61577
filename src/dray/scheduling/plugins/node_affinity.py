"""NodeAffinity: nodeSelector and required node affinity select nodes, preferred node affinity ranks them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api.objects import Object, mappings
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.model.node import Node
from dray.scheduling.model.node_terms import term_matches
from dray.scheduling.model.pod import Requirements
from dray.scheduling.model.reasons import Code, LabelMismatch
from dray.scheduling.model.status import Status
from dray.scheduling.plugin import SKIP, Depends, Plugin, Skip


class NodeAffinity(Plugin):
    depends_on = Depends.NODE
    weight = 2

    def prefilter(self, cycle: Cycle) -> Skip | None:
        requirements = cycle.pod.requirements
        return None if requirements.node_selector or requirements.node_affinity is not None else SKIP

    def filter(self, cycle: Cycle, node: Node) -> Status | None:
        return None if cycle.pod.requirements.select(node.name, node.labels) else _STATUS

    def details(self, cycle: Cycle, node: Node) -> tuple[LabelMismatch, ...]:
        mismatches: dict[LabelMismatch, None] = {}
        for field, expression in _expressions(cycle.pod.requirements):
            if term_matches({field: [expression]}, node.name, node.labels):
                continue
            key, values = str(expression.get("key")), tuple(map(str, expression.get("values") or ()))
            actual = node.name if field == "matchFields" else node.labels.get(key)
            mismatches[LabelMismatch(key, str(expression.get("operator")), values, actual)] = None
        return tuple(mismatches)

    def prescore(self, cycle: Cycle) -> Skip | None:
        return None if cycle.pod.requirements.preferred_node_affinity else SKIP

    def score(self, cycle: Cycle, node: Node) -> int:
        requirements = cycle.pod.requirements
        matching = requirements.preferred_node_affinity.all(node.name, node.labels)
        return sum(requirements.preferred_weights[number] for number in matching)

    def normalize(self, cycle: Cycle, scores: dict[int, int]) -> dict[int, int]:
        most = max(scores.values(), default=0)
        return {number: 100 * weight // most for number, weight in scores.items()} if most > 0 else {}


def _expressions(requirements: Requirements) -> Iterator[tuple[str, Object]]:
    """Returns the expressions of nodeSelector and required node affinity, each with the field of its term."""
    for key, value in requirements.node_selector.items():
        yield "matchExpressions", {"key": key, "operator": "In", "values": [value]}
    for term in requirements.node_affinity.terms if requirements.node_affinity is not None else ():
        for field in ("matchExpressions", "matchFields"):
            for expression in mappings(term.get(field)):
                yield field, expression


_STATUS: Final = Status.of(NodeAffinity.name, Code.NODE_AFFINITY, resolvable=False)
