"""Trees of `dray explain`: why each node does or does not fit a pod, and which devices claims have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from dray.allocation import Rejection, examine
from dray.allocation.conclusions import conclude
from dray.allocation.text import Reasoning, Tree, concluding, nodes_text
from dray.allocation.wording import some
from dray.answers.explaining import remedies
from dray.answers.explaining.explanations import allocation_row, rejection_row
from dray.api.objects import Object, mapping, status_of
from dray.api.resource_claims import allocation_results
from dray.scheduling.explain.explainer import Explainer, NodeAnswer
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.messages import amount_text, reason_text
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, LabelMismatch, Reason, RuleMismatch, Shortage, UntoleratedTaint
from dray.scheduling.scheduler import Scheduler

MOST_TREES: Final = 8
"""Of nodes that fit, so many get a tree of their own."""
_MOST_NAMES: Final = 6


class NodeAnswers:
    """The answers of the nodes: those that fit, those that lack devices, and the others by what they lack."""

    def __init__(self, scheduler: Scheduler, pod: Pod, now: float, only: str = "") -> None:
        explainer = Explainer(scheduler)
        self.scheduler = scheduler
        self._state = scheduler.state
        self._explanation = explanation = explainer.explain(pod, now)
        self.problem = explanation.problem
        """Why no node can be asked."""
        self.chosen = explanation.chosen
        """The node that the scheduler would choose."""
        self.nodes = [each for each in explanation.nodes if only in ("", each.node)]
        self.rejections: list[Rejection] = []
        """Of nodes that lack devices."""
        self._others: list[NodeAnswer] = []
        for answer in self.nodes:
            if answer.placement is not None:
                continue
            assert explanation.cycle is not None
            node = self._state.nodes[answer.node]
            rejection = explainer.rejection(explanation.cycle, node) if answer.lacks_devices else None
            if rejection is not None:
                self.rejections.append(rejection)
            else:
                self._others.append(answer)

    @property
    def fitting(self) -> list[str]:
        """The nodes that would take the pod."""
        return [each.node for each in self.nodes if each.placement is not None]

    def conclusion(self) -> str:
        """Why no node takes the pod."""
        if self.problem:
            return self.problem
        concluded = conclude(self.rejections)
        others: dict[str, list[NodeAnswer]] = {}
        for each in self._others:
            others.setdefault(_kind(each), []).append(each)
        reasons = ", ".join(f"{len(group):,} {kind}" for kind, group in others.items())
        if concluded is not None:
            words = concluding(concluded, self._state.inventory)
            return f"{words}; other nodes: {reasons}" if reasons else words
        if len(others) == 1:
            [group] = others.values()
            return f"no node fits: {_best(group)}"
        return f"no node fits: {reasons}" if reasons else "there are no nodes"

    def remedy(self) -> str:
        """What to do so that a node takes the pod; empty if the conclusion says so, or nobody knows."""
        if self.problem:
            return remedies.of_text(self.problem)
        concluded = conclude(self.rejections)
        if concluded is not None:
            return remedies.of_conclusion(concluded)
        if len({_kind(each) for each in self._others}) != 1:
            return ""
        first = self._others[0]
        if mismatches := _mismatches(first):
            return remedies.of_mismatch(mismatches[0], [each.node for each in self.nodes])
        if _shortages(first):
            short = max((each for answer in self._others for each in _shortages(answer)), key=lambda each: each.left)
            return remedies.of_shortage(short, amount_text(short.resource, short.allocatable))
        return ""

    def trees(self) -> Iterator[Tree]:
        reasoning = Reasoning(self._state.inventory)
        for answer in [each for each in self.nodes if each.placement is not None][:MOST_TREES]:
            yield Tree(f"node {answer.node}: fits", [Tree(text) for text in _placed(answer)])
        yield from self._refusals(reasoning)
        if self._explanation.preemption is not None:
            yield _preempting(self._explanation.preemption)

    def trees_of_choice(self) -> Iterator[Tree]:
        """As `trees`, with what there was to choose from on the node that was chosen, and without others that fit."""
        reasoning = Reasoning(self._state.inventory)
        for answer in self.nodes:
            if answer.node == self.chosen:
                yield self._considered(reasoning, answer)
        yield from self._refusals(reasoning)

    def _refusals(self, reasoning: Reasoning) -> Iterator[Tree]:
        yield from reasoning.trees(self.rejections)
        for names, details in self.obstacles():
            fit = "does not fit" if len(names) == 1 else "do not fit"
            yield Tree(f"{nodes_text(names)}: {fit}", [*map(Tree, details)])
        yield from reasoning.selectors()

    def _considered(self, reasoning: Reasoning, answer: NodeAnswer) -> Tree:
        cycle, node = self._explanation.cycle, self._state.nodes[answer.node]
        assert answer.placement is not None
        assert cycle is not None
        assert node.document is not None
        allocation = answer.placement.devices.allocation
        if allocation is None:
            return Tree(f"node {answer.node}: fits")
        claims, _ = self.scheduler.devices.claims_on(cycle, node)
        return reasoning.considered(allocation, examine(self._state.inventory, node.document, claims))

    def rows(self) -> list[Object]:
        """The same for programs, node by node."""
        rejections = {each.node: each for each in self.rejections}
        return [self._row(each, rejections.get(each.node)) for each in self.nodes]

    def _row(self, answer: NodeAnswer, rejection: Rejection | None) -> Object:
        if rejection is not None:
            return rejection_row(rejection, self._state.inventory)
        if answer.placement is None:
            return {
                "node": answer.node,
                "fits": False,
                "obstacles": [*dict.fromkeys((*_reasons(answer), *_details([answer])))],
            }
        allocation = answer.placement.devices.allocation
        return allocation_row(allocation) if allocation else {"node": answer.node, "fits": True, "claims": []}

    def obstacles(self) -> Iterator[tuple[list[str], list[str]]]:
        """Nodes that say the same, and what stands in the way there apart from devices."""
        grouped: dict[Hashable, list[NodeAnswer]] = {}
        for answer in self._others:
            grouped.setdefault(_likeness(answer), []).append(answer)
        for group in grouped.values():
            yield [each.node for each in group], _details(group) or _reasons(group[0])


def _reasons(answer: NodeAnswer) -> list[str]:
    return [*map(reason_text, answer.status.reasons)] if answer.status is not None else []


def _taints(answer: NodeAnswer) -> list[UntoleratedTaint]:
    return [each for each in answer.details if isinstance(each, UntoleratedTaint)]


def _mismatches(answer: NodeAnswer) -> list[LabelMismatch]:
    return [each for each in answer.details if isinstance(each, LabelMismatch)]


def _shortages(answer: NodeAnswer) -> list[Shortage]:
    return [each for each in answer.details if isinstance(each, Shortage)]


def _rules(answer: NodeAnswer) -> list[RuleMismatch]:
    return [each for each in answer.details if isinstance(each, RuleMismatch)]


def _kind(answer: NodeAnswer) -> str:
    """The first obstacle, in few words."""
    if _taints(answer):
        return "tainted"
    if _mismatches(answer):
        return "without the required labels"
    return (_reasons(answer) or ["unsuitable"])[0]


def _best(group: Sequence[NodeAnswer]) -> str:
    """What stands in the way on nodes of one kind, as on the one that has most."""
    first = group[0]
    if short := _shortages(first):
        resource = short[0].resource
        found = [(each, answer) for answer in group for each in _shortages(answer) if each.resource == resource]
        least, answer = max(found, key=lambda each: each[0].left)
        where = f" on the best node, {answer.node}" if len(group) > 1 else ""
        return _shortage(least) + where
    if len({_likeness(each) for each in group}) == 1:
        return "; ".join(_details(group))
    return _kind(first)


def _likeness(answer: NodeAnswer) -> Hashable:
    if mismatches := _mismatches(answer):
        return tuple((each.key, each.operator, each.values) for each in mismatches)
    return tuple(_details([answer])) or tuple(_reasons(answer))


def _details(group: Sequence[NodeAnswer]) -> list[str]:
    """The reasons of nodes that say the same, with what is behind them."""
    first = group[0]
    if taints := _taints(first):
        return [_taint(each) for each in taints]
    if mismatches := _mismatches(first):
        return [_mismatch([_mismatches(each)[number] for each in group]) for number in range(len(mismatches))]
    if rules := _rules(first):
        return [text for each in rules for text in _rule(each)]
    short = {Reason(Code.INSUFFICIENT, (each.resource,)): each for each in _shortages(first)}
    reasons = first.status.reasons if first.status is not None else ()
    return [_shortage(short[reason]) if reason in short else reason_text(reason) for reason in reasons]


def _taint(taint: UntoleratedTaint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"tainted {taint.key}{value}:{taint.effect}, not tolerated"


def _shortage(short: Shortage) -> str:
    wanted, left, there = (
        amount_text(short.resource, number) for number in (short.wanted, short.left, short.allocatable)
    )
    return f"Insufficient {short.resource}: {wanted} requested, {left} of {there} left"


_WANTS: Final = {
    "In": "must be {}",
    "NotIn": "must not be {}",
    "Exists": "must be set",
    "DoesNotExist": "must not be set",
    "Gt": "must be greater than {}",
    "Lt": "must be less than {}",
}


def _mismatch(group: Sequence[LabelMismatch]) -> str:
    """One demand, and what the nodes have instead."""
    first = group[0]
    values = " or ".join(first.values)
    wants = _WANTS.get(first.operator, f"{first.operator} {{}}").format(values)
    there = Counter(each.actual for each in group)
    if list(there) == [None]:
        return f"label {first.key} {wants}, but is not set"
    if len(there) == 1:
        return f"label {first.key} {wants}, but is {first.actual}"
    found = [f"{'not set' if value is None else value} ({number})" for value, number in there.most_common()]
    return f"label {first.key} {wants}, but is {few(found)}"


def _rule(rule: RuleMismatch) -> list[str]:
    """What the nearest rule of a class wants otherwise."""
    of = f"ComputeClass {rule.node_class}"
    where = f"{of}, nearest priorities[{rule.rule}]" if rule.rule is not None else f"{of}, nodePoolConfig"
    return [f"{where}: {_mismatch([each])}" for each in rule.mismatches] or [f"{of} has no priorities"]


def holding(claim: Object) -> Tree:
    """What an allocated claim holds, and for whom."""
    namespace, name = claim["metadata"].get("namespace") or "", claim["metadata"]["name"]
    status = status_of(claim)
    allocation = status.get("allocation")
    if not allocation:
        return Tree(f"claim {namespace}/{name}: not allocated")
    results = allocation_results(allocation)
    root = Tree(f"claim {namespace}/{name}: allocated", [Tree(requested_device(each)) for each in results])
    users = [f"{each.get('resource')}/{each.get('name')}" for each in status.get("reservedFor") or ()]
    root.branches.append(Tree(f"reserved for {few(users)}" if users else "reserved for nobody"))
    return root


def device(result: Object) -> str:
    consumed = ", ".join(f"{amount} {what}" for what, amount in mapping(result.get("consumedCapacity")).items())
    access = " (admin access)" if result.get("adminAccess") else ""
    where = "/".join((result["driver"], result["pool"], result["device"]))
    return f"{where}{f' ({consumed})' if consumed else ''}{access}"


def requested_device(result: Object) -> str:
    return f"{result['request']}: {device(result)}"


def _placed(answer: NodeAnswer) -> Iterator[str]:
    assert answer.placement is not None
    allocation = answer.placement.devices.allocation
    for key, result in zip(allocation.claims, allocation.results, strict=True) if allocation else ():
        for each in result["devices"].get("results") or ():
            yield f"claim {'/'.join(key)}, {requested_device(each)}"


def _preempting(preemption: Preemption) -> Tree:
    [node] = (place.node for place in preemption.places.values())
    victims = [f"{'/'.join(each.key)} (priority {each.priority})" for each in preemption.victims]
    if not victims:
        return Tree(f"will fit on node {node} when the pods that are leaving are gone")
    return Tree(f"would fit on node {node} without pods of lower priority: {few(victims)}")


def few(names: list[str]) -> str:
    return some(names, _MOST_NAMES)
