"""AffinityIndex: counts of pods for affinity and topology spread, updated when pods are added and removed.

Two things are counted: the pods that a term selects, for the terms that were used last, and the pods that have a term,
since terms of existing pods apply to new pods. So the cost of a decision depends on the number of distinct terms, not
on the number of pods.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final

from dray.api.objects import is_deleting, labels_of
from dray.scheduling.cluster.topology_counts import EqualPods, Index, Labels, MatchedPods, TopologyCounts
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.pod_terms import PodTerms, Term, TermSelector

FORBIDS: Final = 0
"""The weight that stands for required anti-affinity."""
_MOST_MATCHED: Final = 1024
_MOST_EXISTING: Final = 4096
_HARD_WEIGHT: Final = 1
"""The weight of the required affinity of existing pods in scores (hardPodAffinityWeight)."""

WeightedTerm = tuple[int, Term]
ExistingTerms = tuple[tuple[int, str, TopologyCounts], ...]
"""Terms of existing pods that select a pod: weight, topology key, and where the pods with the term are."""
Identity = tuple[str, frozenset[tuple[str, str]], bool]
"""Namespace, labels, and whether the pod is being deleted: all that a term can depend on."""


class AffinityIndex:
    def __init__(self) -> None:
        self._pods: dict[Identity, EqualPods] = {}
        self._counted: dict[str, tuple[Node, Identity, PodTerms]] = {}
        """The node, identity and terms with which a pod was counted, by its uid."""
        self._matched: OrderedDict[tuple[TermSelector, ...], MatchedPods] = OrderedDict()
        self._terms: dict[WeightedTerm, TopologyCounts] = {}
        self._named: Counter[str] = Counter()
        """The number of terms that name a namespace."""
        self._selecting = 0
        """The number of terms that select namespaces by label."""
        self._existing: dict[Identity, ExistingTerms] = {}
        self._pods_by_label: Index[EqualPods] = Index()
        self._matched_by_label: Index[MatchedPods] = Index()
        self._terms_by_label: Index[WeightedTerm] = Index()
        self.namespaces: dict[str, Labels] = {}
        """The labels of all namespaces, by name."""

    # Events

    def add(self, pod: Pod, node: Node) -> None:
        """Counts a pod on a node. When its labels change or it is being deleted, remove it and add it again."""
        if pod.uid in self._counted:
            self.remove(pod, node)
        identity, own = _identity(pod), pod.requirements.pod_terms
        self._counted[pod.uid] = (node, identity, own)
        pods = self._pods.get(identity)
        if pods is None:
            pods = self._pods[identity] = EqualPods(pod.key[0], pod.labels, identity[2])
            for label in pod.labels.items():
                self._pods_by_label.add(label, pods)
            for matched in self._matched_by_label.of(pod.labels):
                if matched.includes(pods, self.namespaces):
                    matched.count(pods)
        pods.add(node, 1)
        for term in _terms(own) if own else ():
            self._add_term(term, node)

    def remove(self, pod: Pod, node: Node) -> None:
        """Stops counting a pod on the node where it was counted."""
        counted = self._counted.pop(pod.uid, None)
        if counted is None:
            return
        node, identity, own = counted
        pods = self._pods[identity]
        pods.add(node, -1)
        if not pods.by_node:
            del self._pods[identity]
            for label in pods.labels.items():
                self._pods_by_label.remove(label, pods)
            for matched in pods.matched:
                matched.equal_pods.pop(pods, None)
        for term in _terms(own) if own else ():
            self._remove_term(term, node)

    def node_changed(self, node: Node, before_labels: Labels) -> None:
        """Moves the pods of a node to the domains of its new labels; `before_labels` is empty for a new node."""
        for counts in (*self._matched.values(), *self._terms.values()):
            counts.relabelled(node, before_labels)

    def namespace_changed(self, name: str, labels: Labels | None) -> None:
        """Notes the labels of a namespace; None if it was deleted."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        self._existing.clear()
        for matched in self._matched.values():
            if any(selector.namespace_selector is not None for selector in matched.selectors):
                self._fill(matched)

    # Questions

    def selects(self, pod: Pod) -> bool:
        """Whether a term of an existing pod may select the pod; False is certain."""
        return self._selecting > 0 or pod.key[0] in self._named

    def matched(self, *selectors: TermSelector) -> MatchedPods:
        """Counts of the pods that all selectors select."""
        known = self._matched.get(selectors)
        if known is None:
            known = self._matched[selectors] = MatchedPods(selectors)
            self._matched_by_label.add(known.label, known)
            self._fill(known)
            if len(self._matched) > _MOST_MATCHED:
                _, dropped = self._matched.popitem(last=False)
                self._matched_by_label.remove(dropped.label, dropped)
                dropped.forget()
        else:
            self._matched.move_to_end(selectors)
        return known

    def _fill(self, matched: MatchedPods) -> None:
        matched.forget()
        label = matched.label
        for pods in self._pods.values() if label is None else self._pods_by_label.at(label):
            if matched.includes(pods, self.namespaces):
                matched.count(pods)

    # Terms of existing pods

    def _add_term(self, term: WeightedTerm, node: Node) -> None:
        counts = self._terms.get(term)
        if counts is None:
            counts = self._terms[term] = TopologyCounts()
            self._terms_by_label.add(term[1].selector.label, term)
            self._note_selector(term[1].selector, 1)
        counts.add(node, 1)

    def _remove_term(self, term: WeightedTerm, node: Node) -> None:
        counts = self._terms[term]
        counts.add(node, -1)
        if not counts:
            del self._terms[term]
            self._terms_by_label.remove(term[1].selector.label, term)
            self._note_selector(term[1].selector, -1)

    def _note_selector(self, selector: TermSelector, change: int) -> None:
        self._existing.clear()
        if selector.namespace_selector is not None:
            self._selecting += change
        for namespace in selector.namespaces:
            self._named[namespace] += change
            if not self._named[namespace]:
                del self._named[namespace]

    def existing_terms(self, pod: Pod) -> ExistingTerms:
        """The terms of existing pods that select the pod."""
        identity = _identity(pod)
        known = self._existing.get(identity)
        if known is None:
            if len(self._existing) >= _MOST_EXISTING:
                self._existing.clear()
            known = self._existing[identity] = tuple(self._find_existing(pod))
        return known

    def _find_existing(self, pod: Pod) -> Iterator[tuple[int, str, TopologyCounts]]:
        namespace, labels = pod.key[0], pod.labels
        for weighted in self._terms_by_label.of(labels):
            weight, term = weighted
            if term.selector.includes(namespace, labels, False, self.namespaces):
                yield weight, term.topology_key, self._terms[weighted]


def _identity(pod: Pod) -> Identity:
    return pod.key[0], frozenset(labels_of(pod.document).items()), is_deleting(pod.document)


def _terms(own: PodTerms) -> Iterator[WeightedTerm]:
    """The terms of a pod that apply to other pods."""
    for term in own.anti_affinity:
        yield FORBIDS, term
    for term in own.affinity:
        yield _HARD_WEIGHT, term
    yield from own.preferred
