"""Topology counts: the number of matching pods by node and by topology domain, updated with every pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from dray.scheduling.model.node import Node
from dray.scheduling.model.pod_terms import TermSelector

Labels = Mapping[str, str]
Label = tuple[str, str]
K = TypeVar("K")


class Index(Generic[K]):
    """Items indexed by a label that they have or select, and items without such a label."""

    __slots__ = ("_by_label",)

    def __init__(self) -> None:
        self._by_label: dict[Label | None, dict[K, None]] = {}

    def add(self, label: Label | None, item: K) -> None:
        self._by_label.setdefault(label, {})[item] = None

    def remove(self, label: Label | None, item: K) -> None:
        items = self._by_label.get(label, {})
        items.pop(item, None)
        if not items:
            self._by_label.pop(label, None)

    def at(self, label: Label) -> list[K]:
        return list(self._by_label.get(label, ()))

    def of(self, labels: Labels) -> list[K]:
        """The items of any of these labels, and the items without a label."""
        items = list(self._by_label.get(None, ()))
        for label in labels.items():
            items += self._by_label.get(label, ())
        return items


class TopologyCounts:
    """Domains are counted for the topology keys that were asked for. Counts of zero are removed."""

    __slots__ = ("_domains", "by_node")

    def __init__(self) -> None:
        self.by_node: dict[Node, int] = {}
        self._domains: dict[str, dict[str, int]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_node)

    def add(self, node: Node, count: int) -> None:
        _count(self.by_node, node, count)
        for key, domains in self._domains.items():
            value = node.labels.get(key)
            if value is not None:
                _count(domains, value, count)

    def domains(self, key: str) -> Mapping[str, int]:
        """The number of pods by value of the node label; a live view."""
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = {}
            for node, count in self.by_node.items():
                value = node.labels.get(key)
                if value is not None:
                    _count(known, value, count)
        return known

    def relabelled(self, node: Node, before: Labels) -> None:
        """Moves the pods of a node to the domains of its new labels; `before` are the old labels."""
        count = self.by_node.get(node)
        if count is None:
            return
        for key, domains in self._domains.items():
            old, new = before.get(key), node.labels.get(key)
            if old != new:
                if old is not None:
                    _count(domains, old, -count)
                if new is not None:
                    _count(domains, new, count)

    def clear(self) -> None:
        self.by_node.clear()
        for domains in self._domains.values():
            domains.clear()


class MatchedPods(TopologyCounts):
    """Counts of the pods that all of the selectors select."""

    __slots__ = ("equal_pods", "label", "selectors")

    def __init__(self, selectors: tuple[TermSelector, ...]) -> None:
        super().__init__()
        self.selectors = selectors
        self.label = next((selector.label for selector in selectors if selector.label is not None), None)
        """A label that all matched pods have, used to find them; None if there is none."""
        self.equal_pods: dict[EqualPods, None] = {}
        """The sets of equal pods that are counted."""

    def count(self, pods: EqualPods) -> None:
        """Counts the pods, and follows their changes from now on."""
        self.equal_pods[pods] = pods.matched[self] = None
        for node, count in pods.by_node.items():
            self.add(node, count)

    def forget(self) -> None:
        """Stops counting: sets of equal pods no longer report their changes to these counts."""
        for pods in self.equal_pods:
            pods.matched.pop(self, None)
        self.equal_pods.clear()
        self.clear()

    def includes(self, pods: EqualPods, namespaces: Mapping[str, Labels]) -> bool:
        for selector in self.selectors:
            if not selector.includes(pods.namespace, pods.labels, pods.deleting, namespaces):
                return False
        return True


class EqualPods:
    """Pods with the same namespace and labels, which no term can distinguish."""

    __slots__ = ("by_node", "deleting", "labels", "matched", "namespace")

    def __init__(self, namespace: str, labels: Labels, deleting: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.deleting = deleting
        self.by_node: dict[Node, int] = {}
        self.matched: dict[MatchedPods, None] = {}
        """The counts that include these pods."""

    def add(self, node: Node, count: int) -> None:
        _count(self.by_node, node, count)
        for matched in self.matched:
            matched.add(node, count)


def _count(counts: dict[K, int], key: K, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
