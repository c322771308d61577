"""Topology counts: how many pods match, by node and by topology domain, kept as pods come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from dray.scheduling.model.node import Node
from dray.scheduling.model.pod_terms import TermSelector

Labels = Mapping[str, str]
Label = tuple[str, str]
K = TypeVar("K")


class Index(Generic[K]):
    """Things by a label that they have or speak of, and those without one."""

    __slots__ = ("_by_label",)

    def __init__(self) -> None:
        self._by_label: dict[Label | None, dict[K, None]] = {}

    def add(self, label: Label | None, thing: K) -> None:
        self._by_label.setdefault(label, {})[thing] = None

    def remove(self, label: Label | None, thing: K) -> None:
        things = self._by_label.get(label, {})
        things.pop(thing, None)
        if not things:
            self._by_label.pop(label, None)

    def at(self, label: Label) -> list[K]:
        return list(self._by_label.get(label, ()))

    def of(self, labels: Labels) -> list[K]:
        """Those of one of these labels, and those without one."""
        found = list(self._by_label.get(None, ()))
        for label in labels.items():
            found += self._by_label.get(label, ())
        return found


class TopologyCounts:
    """Domains are counted for the keys that were asked for; nothing that is zero is kept."""

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
        """By value of the node label; changes as the counts does."""
        known = self._domains.get(key)
        if known is None:
            known = self._domains[key] = {}
            for node, count in self.by_node.items():
                value = node.labels.get(key)
                if value is not None:
                    _count(known, value, count)
        return known

    def relabelled(self, node: Node, before: Labels) -> None:
        """The node's labels are other than when its pods were counted."""
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
    """The pods that all of some selectors include."""

    __slots__ = ("equal_pods", "label", "selectors")

    def __init__(self, selectors: tuple[TermSelector, ...]) -> None:
        super().__init__()
        self.selectors = selectors
        self.label = next((each.label for each in selectors if each.label is not None), None)
        """A label that all of them have, if there is one by which to find them."""
        self.equal_pods: dict[EqualPods, None] = {}
        """Those it counts."""

    def count(self, pods: EqualPods) -> None:
        """Now, and from now on as they come and go."""
        self.equal_pods[pods] = pods.matched[self] = None
        for node, count in pods.by_node.items():
            self.add(node, count)

    def forget(self) -> None:
        """Counts nothing any more."""
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
    """Pods that no term can tell apart: one namespace, the same labels."""

    __slots__ = ("by_node", "deleting", "labels", "matched", "namespace")

    def __init__(self, namespace: str, labels: Labels, deleting: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.deleting = deleting
        self.by_node: dict[Node, int] = {}
        self.matched: dict[MatchedPods, None] = {}
        """By which they are counted."""

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
