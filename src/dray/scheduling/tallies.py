"""How many pods there are of a sort, by node and by domain, one pod at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from dray.scheduling.model import Node
from dray.scheduling.terms import Audience

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


class Tally:
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
        """By value of the node label; changes as the tally does."""
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


class Sample(Tally):
    """The pods that all of some audiences include."""

    __slots__ = ("anchor", "audiences", "guises")

    def __init__(self, audiences: tuple[Audience, ...]) -> None:
        super().__init__()
        self.audiences = audiences
        self.anchor = next((each.anchor for each in audiences if each.anchor is not None), None)
        """A label that all of them have, if there is one by which to find them."""
        self.guises: dict[Guise, None] = {}
        """Those it counts."""

    def count(self, guise: Guise) -> None:
        """Also from now on, as pods of that guise come and go."""
        self.guises[guise] = guise.samples[self] = None
        for node, count in guise.by_node.items():
            self.add(node, count)

    def forget(self) -> None:
        """Counts nothing, and nothing more."""
        for guise in self.guises:
            guise.samples.pop(self, None)
        self.guises.clear()
        self.clear()

    def includes(self, guise: Guise, namespaces: Mapping[str, Labels]) -> bool:
        for audience in self.audiences:
            if not audience.includes(guise.namespace, guise.labels, guise.leaving, namespaces):
                return False
        return True


class Guise:
    """Pods that no term can tell apart: one namespace, the same labels."""

    __slots__ = ("by_node", "labels", "leaving", "namespace", "samples")

    def __init__(self, namespace: str, labels: Labels, leaving: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.leaving = leaving
        """Whether they are being deleted."""
        self.by_node: dict[Node, int] = {}
        self.samples: dict[Sample, None] = {}
        """Those they belong to."""

    def add(self, node: Node, count: int) -> None:
        _count(self.by_node, node, count)
        for sample in self.samples:
            sample.add(node, count)


def _count(counts: dict[K, int], key: K, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
