"""Pods and their neighbours: who must be near whom, and who apart.

Two sides are counted as pods come and go. *Samples* count the pods that a term speaks of, for the terms of pods that
were judged lately. *Holdings* count the pods that have a term, since those terms concern whoever comes later. So a
judgement costs a look at the distinct terms, not at the pods.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from dray.scheduling.judgement import FORBIDS, Concerns, Judgement
from dray.scheduling.model import Node, Pod
from dray.scheduling.tallies import Guise, Index, Labels, Sample, Tally
from dray.scheduling.terms import Audience, Manners, Term, manners

_MOST_SAMPLES: Final = 1024
_MOST_CONCERNS: Final = 4096
_HARD_WEIGHT: Final = 1
"""What another pod's required affinity is worth to a node."""

Holding = tuple[int, Term]
Outward = tuple[str, frozenset[tuple[str, str]], bool]


class Neighbours:
    def __init__(self) -> None:
        self._guises: dict[Outward, Guise] = {}
        self._counted: dict[str, tuple[Node, Outward, Manners]] = {}
        """By uid, as it was counted."""
        self._samples: OrderedDict[tuple[Audience, ...], Sample] = OrderedDict()
        self._holdings: dict[Holding, Tally] = {}
        self._spoken_of: Counter[str] = Counter()
        """By namespace: how many holdings name it."""
        self._selecting = 0
        """How many holdings select namespaces by label."""
        self._concerns: dict[Outward, Concerns] = {}
        self._guises_by_label: Index[Guise] = Index()
        self._samples_by_label: Index[Sample] = Index()
        self._holdings_by_label: Index[Holding] = Index()
        self._namespaces: dict[str, Labels] = {}

    # What happens

    def add(self, pod: Pod, node: Node) -> None:
        """The pod is on the node. Where its labels change or it is being deleted, remove it and add it again."""
        if pod.uid in self._counted:
            self.remove(pod, node)
        outward, own = _outward(pod), manners(pod.needs)
        self._counted[pod.uid] = (node, outward, own)
        guise = self._guises.get(outward)
        if guise is None:
            guise = self._guises[outward] = Guise(pod.key[0], pod.labels, outward[2])
            for label in pod.labels.items():
                self._guises_by_label.add(label, guise)
            for sample in self._samples_by_label.of(pod.labels):
                if sample.includes(guise, self._namespaces):
                    sample.count(guise)
        guise.add(node, 1)
        for holding in _holdings(own):
            self._hold(holding, node)

    def remove(self, pod: Pod, node: Node) -> None:
        """The pod has left the node where it was counted."""
        counted = self._counted.pop(pod.uid, None)
        if counted is None:
            return
        node, outward, own = counted
        guise = self._guises[outward]
        guise.add(node, -1)
        if not guise.by_node:
            del self._guises[outward]
            for label in guise.labels.items():
                self._guises_by_label.remove(label, guise)
            for sample in guise.samples:
                sample.guises.pop(guise, None)
        for holding in _holdings(own):
            self._release(holding, node)

    def node_changed(self, node: Node, before_labels: Labels) -> None:
        """The node has other labels than `before_labels`; none where it came or went."""
        for tallies in (self._samples.values(), self._holdings.values()):
            for tally in tallies:
                tally.relabelled(node, before_labels)

    def namespace_changed(self, name: str, labels: Labels | None) -> None:
        """None where the namespace is gone."""
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._concerns.clear()
        for sample in self._samples.values():
            if any(audience.namespace_selector is not None for audience in sample.audiences):
                self._fill(sample)

    # What it means for a pod

    def matters(self, pod: Pod) -> bool:
        """False only where neither the pod nor anybody else has a say; then there is nothing to judge."""
        return pod.needs.social or self._selecting > 0 or pod.key[0] in self._spoken_of

    def judge(self, pod: Pod, nodes: Iterable[Node]) -> Judgement:
        """Good until something changes. `nodes` are all nodes that exist, not only those that could take the pod."""
        return Judgement(pod, manners(pod.needs), nodes, self._sample, self._concerns_of(pod), self._namespaces)

    # Samples

    def _sample(self, audiences: tuple[Audience, ...]) -> Sample:
        known = self._samples.get(audiences)
        if known is None:
            known = self._samples[audiences] = Sample(audiences)
            self._samples_by_label.add(known.anchor, known)
            self._fill(known)
            if len(self._samples) > _MOST_SAMPLES:
                _, dropped = self._samples.popitem(last=False)
                self._samples_by_label.remove(dropped.anchor, dropped)
                dropped.forget()
        else:
            self._samples.move_to_end(audiences)
        return known

    def _fill(self, sample: Sample) -> None:
        sample.forget()
        anchor = sample.anchor
        for guise in self._guises.values() if anchor is None else self._guises_by_label.at(anchor):
            if sample.includes(guise, self._namespaces):
                sample.count(guise)

    # Holdings

    def _hold(self, holding: Holding, node: Node) -> None:
        tally = self._holdings.get(holding)
        if tally is None:
            tally = self._holdings[holding] = Tally()
            self._holdings_by_label.add(holding[1].audience.anchor, holding)
            self._note(holding[1].audience, 1)
        tally.add(node, 1)

    def _release(self, holding: Holding, node: Node) -> None:
        tally = self._holdings[holding]
        tally.add(node, -1)
        if not tally:
            del self._holdings[holding]
            self._holdings_by_label.remove(holding[1].audience.anchor, holding)
            self._note(holding[1].audience, -1)

    def _note(self, audience: Audience, change: int) -> None:
        self._concerns.clear()
        if audience.namespace_selector is not None:
            self._selecting += change
        for namespace in audience.namespaces:
            self._spoken_of[namespace] += change
            if not self._spoken_of[namespace]:
                del self._spoken_of[namespace]

    def _concerns_of(self, pod: Pod) -> Concerns:
        outward = _outward(pod)
        known = self._concerns.get(outward)
        if known is None:
            if len(self._concerns) >= _MOST_CONCERNS:
                self._concerns.clear()
            known = self._concerns[outward] = tuple(self._find_concerns(pod))
        return known

    def _find_concerns(self, pod: Pod) -> Iterator[tuple[int, str, Tally]]:
        namespace, labels = pod.key[0], pod.labels
        for holding in self._holdings_by_label.of(labels):
            weight, term = holding
            if term.audience.includes(namespace, labels, False, self._namespaces):
                yield weight, term.key, self._holdings[holding]


def _outward(pod: Pod) -> Outward:
    """Everything of a pod that a term can see."""
    metadata = pod.document["metadata"]
    return pod.key[0], frozenset((metadata.get("labels") or {}).items()), bool(metadata.get("deletionTimestamp"))


def _holdings(own: Manners) -> Iterator[Holding]:
    """The terms that concern those who come later."""
    for term in own.apart:
        yield FORBIDS, term
    for term in own.near:
        yield _HARD_WEIGHT, term
    yield from own.preferred
