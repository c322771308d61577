"""NodeClasses: the rank of nodes for pods that name a node class.

A class is a ComputeClass of GKE, whose rules rank nodes, or the NodePools of Karpenter, which have weights. A label
assigns a node to its class. A pod names a class if its node selector or required node affinity requires that label.
Pods that name no ComputeClass belong to the class `default`, if it exists; it also ranks nodes without a class.
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
        """The weights of NodePools, by name."""
        self._named: WeakKeyDictionary[Requirements, tuple[frozenset[str], bool]] = WeakKeyDictionary()
        self._ranks: dict[tuple[str, str], tuple[Object | None, int | None]] = {}
        """Ranks by class and node, each with the Node object for which it was computed."""
        self.known = False
        """Whether a node class exists."""

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
        """Whether a node class ranks nodes for pods with these requirements."""
        if not self.known:
            return False
        classes, pools = self._names(requirements)
        return bool(classes) or compute_class.DEFAULT in self._classes or (pools and bool(self._weights))

    def tolerates(self, requirements: Requirements, taint: Object) -> bool:
        """Whether the taint is that of the pod's node class; GKE adds a toleration for it to such pods."""
        if not self._classes or taint.get("key") != compute_class.LABEL or taint.get("effect") != "NoSchedule":
            return False
        name, named = taint.get("value"), self._names(requirements)[0]
        return name in self._classes and (name in named if named else name == compute_class.DEFAULT)

    def rank(self, requirements: Requirements, node: Node) -> int | None:
        """The rank of the node, lower is better; None if the class rejects the node."""
        named, pools = self._names(requirements)
        node_class = self._class_on(named, node)
        rank = self._rank(node_class, node) if node_class is not None else 0
        if rank is None:
            # The default class does not reject nodes that have no class.
            return node_class.last if node_class is not None and compute_class.LABEL not in node.labels else None
        if pools and self._weights:
            rank = rank * (_HEAVIEST + 1) + _HEAVIEST - self._weights.get(node.labels.get(NODE_POOL_LABEL, ""), 0)
        return rank

    def why_not(self, requirements: Requirements, node: Node) -> RuleMismatch | None:
        """Why a node has no rank: the mismatches of the rule that has the fewest."""
        node_class = self._class_on(self._names(requirements)[0], node)
        if node_class is None:
            return None
        values = facts(node)
        if mismatches := tuple(_mismatches(node_class.config, node, values)):
            return RuleMismatch(node_class.name, None, mismatches)
        rules = [(tuple(_mismatches(rule, node, values)), number) for number, rule in enumerate(node_class.rules)]
        mismatches, number = min(rules, key=lambda rule: len(rule[0]), default=((), 0))
        return RuleMismatch(node_class.name, number, mismatches)

    def tiers(self, requirements: Requirements, nodes: Iterable[Node]) -> list[frozenset[int]]:
        """Sets of node numbers for groups to try in order: each rank alone, then the best ranks together.

        The set of all nodes is not included.
        """
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
        """The class that ranks a node, for a pod that names these classes."""
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
            labels = dict(_required_labels(requirements))
            known = self._named[requirements] = labels.get(compute_class.LABEL, _NONE), NODE_POOL_LABEL in labels
        return known


def _required_labels(requirements: Requirements) -> Iterator[tuple[str, frozenset[str]]]:
    """The labels of node classes that nodes must have, with the allowed values; no values if all are allowed."""
    terms = requirements.node_affinity.terms if requirements.node_affinity is not None else ()
    for key in (compute_class.LABEL, NODE_POOL_LABEL):
        if (value := requirements.node_selector.get(key)) is not None:
            yield key, frozenset((value,))
            continue
        expressions = [
            expression
            for term in terms
            for expression in mappings(term.get("matchExpressions"))
            if expression.get("key") == key and expression.get("operator") in ("In", "Exists")
        ]
        if expressions:
            yield key, frozenset(value for expression in expressions for value in strings(expression.get("values")))


def _ranked(of: ComputeClass, node: Node) -> int | None:
    values = facts(node)
    if not all(selects(selector, node.name, values) for selector in of.config):
        return None
    ranks = [
        rank
        for rank, rule in zip(of.ranks, of.rules, strict=True)
        if all(selects(selector, node.name, values) for selector in rule)
    ]
    return min(ranks, default=None if of.strict else of.last)


def _mismatches(selectors: Iterable[Selector], node: Node, labels: Mapping[str, str]) -> Iterator[LabelMismatch]:
    """The expressions that do not match; of a selector with alternatives those of the first."""
    for selector in selectors:
        if selects(selector, node.name, labels):
            continue
        for expression in selector["nodeSelectorTerms"][0]["matchExpressions"]:
            if not selects({"nodeSelectorTerms": [{"matchExpressions": [expression]}]}, node.name, labels):
                key, values = str(expression["key"]), tuple(expression.get("values") or ())
                yield LabelMismatch(key, str(expression["operator"]), values, labels.get(key))
