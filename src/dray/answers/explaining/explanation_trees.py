"""Trees of `dray explain`: why each node does or does not fit a pod, and which devices claims have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from dray.allocation import Rejection, examine
from dray.allocation.conclusions import NothingSuitable, conclude
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
"""How many of the nodes that fit get a tree of their own."""
_MOST_NAMES: Final = 6


class NodeAnswers:
    """The answers of all nodes about a pod: some fit, some lack devices, and others have other obstacles."""

    def __init__(self, scheduler: Scheduler, pod: Pod, now: float, only: str = "") -> None:
        explainer = Explainer(scheduler)
        self.scheduler = scheduler
        self._state = scheduler.state
        self._explanation = explanation = explainer.explain(pod, now)
        self.problem = explanation.problem
        """Why no node was checked; empty if the nodes were checked."""
        self.chosen = explanation.chosen
        """The node that the scheduler would choose."""
        self.nodes = [answer for answer in explanation.nodes if only in ("", answer.node)]
        self.rejections: list[Rejection] = []
        """The rejections of the nodes that lack devices."""
        self._others: list[NodeAnswer] = []
        self._with_devices: list[NodeAnswer] = []
        """Nodes with the devices and another obstacle; filled only if no other node has a suitable device."""
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
        self._concluded = conclude(self.rejections)
        if isinstance(self._concluded, NothingSuitable):
            self._with_devices = [
                answer for answer in self._others if not _mismatches(answer) and self._has_devices(explainer, answer)
            ]

    def _has_devices(self, explainer: Explainer, answer: NodeAnswer) -> bool:
        """Returns True if the devices of the node are enough for the pod."""
        cycle = self._explanation.cycle
        assert cycle is not None
        return explainer.rejection(cycle, self._state.nodes[answer.node]) is None

    @property
    def fitting(self) -> list[str]:
        """The nodes that would take the pod."""
        return [answer.node for answer in self.nodes if answer.placement is not None]

    def conclusion(self) -> str:
        """Returns why no node takes the pod."""
        if self.problem:
            return self.problem
        if self._with_devices:
            return self._blocked_text()
        others = _by_kind(self._others)
        reasons = _counted(others)
        if self._concluded is not None:
            words = concluding(self._concluded, self._state.inventory)
            return f"{words}; other nodes: {reasons}" if reasons else words
        if len(others) == 1:
            [group] = others.values()
            return f"no node fits: {_nearest_text(group)}"
        return f"no node fits: {reasons}" if reasons else "there are no nodes"

    def _blocked_text(self) -> str:
        """Returns why the nodes that have the devices do not fit, and how many other nodes do not fit."""
        equipped = next(iter(_by_kind(self._with_devices).values()))
        count = len(equipped)
        have = f"{count:,} nodes have" if count > 1 else f"node {equipped[0].node} has"
        names = {answer.node for answer in equipped}
        others = [answer for answer in self._others if answer.node not in names]
        reasons = ", ".join(filter(None, (f"{len(self.rejections):,} without the devices", _counted(_by_kind(others)))))
        return f"{have} the devices, but: {_nearest_text(equipped)}; other nodes: {reasons}"

    def remedy(self) -> str:
        """Returns what to do so that a node takes the pod; empty if the conclusion says it, or if it is unknown."""
        if self.problem:
            return remedies.of_text(self.problem)
        if self._concluded is not None and not self._with_devices:
            selects_nodes = any(map(_mismatches, self._explanation.nodes))
            return remedies.of_conclusion(self._concluded, selects_nodes=selects_nodes)
        others = self._with_devices or self._others
        if len({_obstacle_kind(answer) for answer in others}) != 1:
            return ""
        first = others[0]
        if taints := _taints(first):
            return remedies.of_taint(taints[0])
        if mismatches := _mismatches(first):
            return remedies.of_mismatch(mismatches[0], [answer.node for answer in self.nodes])
        if _shortages(first):
            shortages = [shortage for answer in others for shortage in _shortages(answer)]
            smallest = max(shortages, key=lambda shortage: shortage.left)
            return remedies.of_shortage(smallest, amount_text(smallest.resource, smallest.allocatable))
        return ""

    def trees(self) -> Iterator[Tree]:
        """Yields a tree for each node that fits, for nodes that do not fit, and for a possible preemption."""
        reasoning = Reasoning(self._state.inventory)
        for answer in [node_answer for node_answer in self.nodes if node_answer.placement is not None][:MOST_TREES]:
            yield Tree(f"node {answer.node}: fits", [Tree(text) for text in _allocated_devices(answer)])
        yield from self._refusals(reasoning)
        if self._explanation.preemption is not None:
            yield _preemption_tree(self._explanation.preemption)

    def trees_of_choice(self) -> Iterator[Tree]:
        """Yields the alternatives on the chosen node, and why other nodes do not fit; leaves out others that fit."""
        reasoning = Reasoning(self._state.inventory)
        for answer in self.nodes:
            if answer.node == self.chosen:
                yield self._considered_tree(reasoning, answer)
        yield from self._refusals(reasoning)

    def _refusals(self, reasoning: Reasoning) -> Iterator[Tree]:
        yield from reasoning.trees(self.rejections)
        for names, details in self.obstacles():
            fit = "does not fit" if len(names) == 1 else "do not fit"
            yield Tree(f"{nodes_text(names)}: {fit}", [*map(Tree, details)])
        yield from reasoning.selectors()

    def _considered_tree(self, reasoning: Reasoning, answer: NodeAnswer) -> Tree:
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
        """Returns one row for each node, for `-o json`."""
        rejections = {rejection.node: rejection for rejection in self.rejections}
        return [self._row(answer, rejections.get(answer.node)) for answer in self.nodes]

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
        """Yields the names of nodes with the same obstacles, and these obstacles; skips nodes that lack devices."""
        grouped: dict[Hashable, list[NodeAnswer]] = {}
        for answer in self._others:
            grouped.setdefault(_obstacle_key(answer), []).append(answer)
        for group in grouped.values():
            yield [answer.node for answer in group], _details(group) or _reasons(group[0])


def _by_kind(answers: Iterable[NodeAnswer]) -> dict[str, list[NodeAnswer]]:
    found: dict[str, list[NodeAnswer]] = {}
    for answer in answers:
        found.setdefault(_obstacle_kind(answer), []).append(answer)
    return found


def _counted(groups: Mapping[str, Sequence[NodeAnswer]]) -> str:
    return ", ".join(f"{len(group):,} {kind}" for kind, group in groups.items())


def _reasons(answer: NodeAnswer) -> list[str]:
    return [*map(reason_text, answer.status.reasons)] if answer.status is not None else []


def _taints(answer: NodeAnswer) -> list[UntoleratedTaint]:
    return [detail for detail in answer.details if isinstance(detail, UntoleratedTaint)]


def _mismatches(answer: NodeAnswer) -> list[LabelMismatch]:
    return [detail for detail in answer.details if isinstance(detail, LabelMismatch)]


def _shortages(answer: NodeAnswer) -> list[Shortage]:
    return [detail for detail in answer.details if isinstance(detail, Shortage)]


def _rules(answer: NodeAnswer) -> list[RuleMismatch]:
    return [detail for detail in answer.details if isinstance(detail, RuleMismatch)]


def _obstacle_kind(answer: NodeAnswer) -> str:
    """Returns the first obstacle in a few words."""
    if _taints(answer):
        return "tainted"
    if _mismatches(answer):
        return "without the required labels"
    return (_reasons(answer) or ["unsuitable"])[0]


def _nearest_text(group: Sequence[NodeAnswer]) -> str:
    """Returns what nodes with the same kind of obstacle lack; of a resource, what the node with the most left lacks."""
    first = group[0]
    if short := _shortages(first):
        resource = short[0].resource
        shortages = [
            (shortage, answer.node)
            for answer in group
            for shortage in _shortages(answer)
            if shortage.resource == resource
        ]
        smallest, node = max(shortages, key=lambda pair: pair[0].left)
        where = f" on the best node, {node}" if len(group) > 1 else ""
        return _shortage_text(smallest) + where
    if len({_obstacle_key(answer) for answer in group}) == 1:
        return "; ".join(_details(group))
    return _obstacle_kind(first)


def _obstacle_key(answer: NodeAnswer) -> Hashable:
    """Returns a key that is equal for nodes with the same obstacles."""
    if mismatches := _mismatches(answer):
        return tuple((mismatch.key, mismatch.operator, mismatch.values) for mismatch in mismatches)
    return tuple(_details([answer])) or tuple(_reasons(answer))


def _details(group: Sequence[NodeAnswer]) -> list[str]:
    """Returns the reasons of nodes with the same obstacles, with taints, labels and amounts."""
    first = group[0]
    if taints := _taints(first):
        return [_taint_text(taint) for taint in taints]
    if mismatches := _mismatches(first):
        return [_mismatch_text([_mismatches(answer)[number] for answer in group]) for number in range(len(mismatches))]
    if rules := _rules(first):
        return [text for rule in rules for text in _rule_texts(rule)]
    short = {Reason(Code.INSUFFICIENT, (shortage.resource,)): shortage for shortage in _shortages(first)}
    reasons = first.status.reasons if first.status is not None else ()
    return [_shortage_text(short[reason]) if reason in short else reason_text(reason) for reason in reasons]


def _taint_text(taint: UntoleratedTaint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"tainted {taint.key}{value}:{taint.effect}, not tolerated"


def _shortage_text(short: Shortage) -> str:
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


def _mismatch_text(group: Sequence[LabelMismatch]) -> str:
    """Returns the required value of one label, and the values that the nodes have."""
    first = group[0]
    values = " or ".join(first.values)
    wants = _WANTS.get(first.operator, f"{first.operator} {{}}").format(values)
    there = Counter(mismatch.actual for mismatch in group)
    if list(there) == [None]:
        return f"label {first.key} {wants}, but is not set"
    if len(there) == 1:
        return f"label {first.key} {wants}, but is {first.actual}"
    found = [f"{'not set' if value is None else value} ({number})" for value, number in there.most_common()]
    return f"label {first.key} {wants}, but is {few(found)}"


def _rule_texts(rule: RuleMismatch) -> list[str]:
    """Returns which labels the nearest rule of a ComputeClass requires and the node does not have."""
    of = f"ComputeClass {rule.node_class}"
    where = f"{of}, nearest priorities[{rule.rule}]" if rule.rule is not None else f"{of}, nodePoolConfig"
    return [f"{where}: {_mismatch_text([mismatch])}" for mismatch in rule.mismatches] or [f"{of} has no priorities"]


def claim_tree(claim: Object) -> Tree:
    """Returns the devices of an allocated claim, and for which pods it is reserved."""
    namespace, name = claim["metadata"].get("namespace") or "", claim["metadata"]["name"]
    status = status_of(claim)
    allocation = status.get("allocation")
    if not allocation:
        return Tree(f"claim {namespace}/{name}: not allocated")
    results = allocation_results(allocation)
    root = Tree(f"claim {namespace}/{name}: allocated", [Tree(requested_device_text(result)) for result in results])
    users = [f"{user.get('resource')}/{user.get('name')}" for user in status.get("reservedFor") or ()]
    root.branches.append(Tree(f"reserved for {few(users)}" if users else "reserved for nobody"))
    return root


def device_text(result: Object) -> str:
    """Returns a device of an allocation as DRIVER/POOL/DEVICE, with its consumed capacity."""
    consumed = ", ".join(f"{amount} {what}" for what, amount in mapping(result.get("consumedCapacity")).items())
    access = " (admin access)" if result.get("adminAccess") else ""
    where = "/".join((result["driver"], result["pool"], result["device"]))
    return f"{where}{f' ({consumed})' if consumed else ''}{access}"


def requested_device_text(result: Object) -> str:
    return f"{result['request']}: {device_text(result)}"


def _allocated_devices(answer: NodeAnswer) -> Iterator[str]:
    assert answer.placement is not None
    allocation = answer.placement.devices.allocation
    for key, result in zip(allocation.claims, allocation.results, strict=True) if allocation else ():
        for device_result in result["devices"].get("results") or ():
            yield f"claim {'/'.join(key)}, {requested_device_text(device_result)}"


def _preemption_tree(preemption: Preemption) -> Tree:
    [node] = (place.node for place in preemption.places.values())
    victims = [f"{'/'.join(victim.key)} (priority {victim.priority})" for victim in preemption.victims]
    if not victims:
        return Tree(f"will fit on node {node} when the pods that are leaving are gone")
    return Tree(f"would fit on node {node} without pods of lower priority: {few(victims)}")


def few(names: list[str]) -> str:
    """Returns the first names, and how many more there are."""
    return some(names, _MOST_NAMES)
