"""NodeClasses: in which order of preference nodes serve the pods that name a class of nodes.

A class is a ComputeClass of GKE, whose rules rank nodes, or the NodePools of Karpenter, which have weights. Nodes say
by a label to which they belong; a pod names a class where its node selector or required affinity asks for that label.
Pods that name no ComputeClass are of the class `default`, where there is one: it ranks nodes of no class too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from dray.allocation.node_selectors import selects
from dray.api.objects import Object, bounded, mappings, spec_of, strings
from dray.scheduling.cluster import compute_class
from dray.scheduling.cluster.compute_class import ComputeClass, Selector, facts
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.model.reasons import LabelMismatch, RuleMismatch

NODE_POOL: Final = "NodePool"
NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
KINDS: Final = (compute_class.KIND, NODE_POOL)
_HEAVIEST: Final = 100
_MOST_TIERS: Final = 8
_NONE: Final[frozenset[str]] = frozenset()


class NodeClasses:
    def __init__(self) -> None:
        self._classes: dict[str, ComputeClass] = {}
        self._weights: dict[str, int] = {}
        """Of NodePools."""
        self._named: WeakKeyDictionary[Requirements, tuple[frozenset[str], bool]] = WeakKeyDictionary()
        self._ranks: dict[tuple[str, str], tuple[Object | None, int | None]] = {}
        """By class and node, with the document of the node."""
        self.known = False
        """Whether there are any at all."""

    def put(self, kind: str, document: Object) -> None:
        name = document["metadata"]["name"]
        if kind == NODE_POOL:
            self._weights[name] = bounded(spec_of(document).get("weight"), 0, _HEAVIEST)
        else:
            self._classes[name] = compute_class.read(document)
            self._ranks.clear()
        self.known = True

    def remove(self, kind: str, document: Object) -> None:
        name = document["metadata"]["name"]
        (self._weights if kind == NODE_POOL else self._classes).pop(name, None)
        self._ranks.clear()
        self.known = bool(self._classes or self._weights)

    def concern(self, requirements: Requirements) -> bool:
        """Whether nodes are ranked for pods with these requirements."""
        if not self.known:
            return False
        classes, pools = self._names(requirements)
        return bool(classes) or compute_class.DEFAULT in self._classes or (pools and bool(self._weights))

    def tolerates(self, requirements: Requirements, taint: Object) -> bool:
        """Whether the taint is that of a class that the pod is of; GKE gives such pods a toleration."""
        if not self._classes or taint.get("key") != compute_class.LABEL or taint.get("effect") != "NoSchedule":
            return False
        name, named = taint.get("value"), self._names(requirements)[0]
        return name in self._classes and (name in named if named else name == compute_class.DEFAULT)

    def rank(self, requirements: Requirements, node: Node) -> int | None:
        """The lower the better; None where the class has no use for the node."""
        named, pools = self._names(requirements)
        found = self._class_on(named, node)
        rank = self._rank(found, node) if found is not None else 0
        if rank is None:
            # Nobody has said that nodes without the label are to be left alone by pods that name no class.
            return found.last if found is not None and compute_class.LABEL not in node.labels else None
        if pools and self._weights:
            rank = rank * (_HEAVIEST + 1) + _HEAVIEST - self._weights.get(node.labels.get(NODE_POOL_LABEL, ""), 0)
        return rank

    def why_not(self, requirements: Requirements, node: Node) -> RuleMismatch | None:
        """What is other on a node without rank than the rule says that comes nearest to it."""
        found = self._class_on(self._names(requirements)[0], node)
        if found is None:
            return None
        known = facts(node)
        if lacking := tuple(_mismatches(found.config, node, known)):
            return RuleMismatch(found.name, None, lacking)
        rules = [(tuple(_mismatches(rule, node, known)), number) for number, rule in enumerate(found.rules)]
        lacking, number = min(rules, key=lambda each: len(each[0]), default=((), 0))
        return RuleMismatch(found.name, number, lacking)

    def tiers(self, requirements: Requirements, nodes: Iterable[Node]) -> list[frozenset[int]]:
        """Nodes by number: those of each rank alone, the best first, then those up to a rank; without all of them."""
        by_rank: dict[int, set[int]] = {}
        for node in nodes:
            if (rank := self.rank(requirements, node)) is not None:
                by_rank.setdefault(rank, set()).add(node.number)
        alone = [frozenset(by_rank[rank]) for rank in sorted(by_rank)][:_MOST_TIERS]
        if len(by_rank) < 2:
            return []
        together = [alone[0].union(*alone[1 : number + 1]) for number in range(1, min(len(alone), len(by_rank) - 1))]
        return [*alone, *together]

    def _class_on(self, named: frozenset[str], node: Node) -> ComputeClass | None:
        """The class by which a node is ranked, for a pod that names some classes."""
        label = node.labels.get(compute_class.LABEL)
        if named:
            return self._classes.get(label) if label is not None and label in named else None
        return self._classes.get(compute_class.DEFAULT) if label in (None, compute_class.DEFAULT) else None

    def _rank(self, of: ComputeClass, node: Node) -> int | None:
        key = of.name, node.name
        known = self._ranks.get(key)
        if known is None or known[0] is not node.document:
            known = self._ranks[key] = node.document, _ranked(of, node)
        return known[1]

    def _names(self, requirements: Requirements) -> tuple[frozenset[str], bool]:
        """The ComputeClasses that a pod names, and whether it asks for nodes of NodePools."""
        known = self._named.get(requirements)
        if known is None:
            found = dict(_asked(requirements))
            known = self._named[requirements] = found.get(compute_class.LABEL, _NONE), NODE_POOL_LABEL in found
        return known


def _asked(requirements: Requirements) -> Iterator[tuple[str, frozenset[str]]]:
    """The labels of classes that nodes must have, with the values that they may have; none where any will do."""
    terms = requirements.node_affinity.terms if requirements.node_affinity is not None else ()
    for key in (compute_class.LABEL, NODE_POOL_LABEL):
        if (value := requirements.node_selector.get(key)) is not None:
            yield key, frozenset((value,))
            continue
        found = [
            each
            for term in terms
            for each in mappings(term.get("matchExpressions"))
            if each.get("key") == key and each.get("operator") in ("In", "Exists")
        ]
        if found:
            yield key, frozenset(value for each in found for value in strings(each.get("values")))


def _ranked(of: ComputeClass, node: Node) -> int | None:
    known = facts(node)
    if not all(selects(each, node.name, known) for each in of.config):
        return None
    ranks = [
        rank
        for rank, rule in zip(of.ranks, of.rules, strict=True)
        if all(selects(each, node.name, known) for each in rule)
    ]
    return min(ranks, default=None if of.strict else of.last)


def _mismatches(parts: Iterable[Selector], node: Node, known: Mapping[str, str]) -> Iterator[LabelMismatch]:
    for part in parts:
        if selects(part, node.name, known):
            continue
        for each in part["nodeSelectorTerms"][0]["matchExpressions"]:
            if not selects({"nodeSelectorTerms": [{"matchExpressions": [each]}]}, node.name, known):
                key, values = str(each["key"]), tuple(each.get("values") or ())
                yield LabelMismatch(key, str(each["operator"]), values, known.get(key))
