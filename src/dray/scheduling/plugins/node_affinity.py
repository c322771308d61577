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
        found: dict[LabelMismatch, None] = {}
        for member, each in _expressions(cycle.pod.requirements):
            if term_matches({member: [each]}, node.name, node.labels):
                continue
            key, values = str(each.get("key")), tuple(map(str, each.get("values") or ()))
            actual = node.name if member == "matchFields" else node.labels.get(key)
            found[LabelMismatch(key, str(each.get("operator")), values, actual)] = None
        return tuple(found)

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
    """What node selector and required affinity say of labels and of the name, each by itself."""
    for key, value in requirements.node_selector.items():
        yield "matchExpressions", {"key": key, "operator": "In", "values": [value]}
    for term in requirements.node_affinity.terms if requirements.node_affinity is not None else ():
        for member in ("matchExpressions", "matchFields"):
            for each in mappings(term.get(member)):
                yield member, each


_STATUS: Final = Status.of(NodeAffinity.name, Code.NODE_AFFINITY, resolvable=False)
