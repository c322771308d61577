"""What nodes say about a pod, and what claims hold, as trees of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from dray.allocation import Rejection
from dray.allocation.conclusions import conclude
from dray.allocation.text import Reasoning, Tree, concluding, nodes_text
from dray.allocation.wording import some
from dray.api.objects import Object, mapping, status_of
from dray.api.resource_claims import allocation_results
from dray.cli.explanations import allocation_row, rejection_row
from dray.scheduling.inquiry import Answer, Inquiry, Mismatch, Shortage, Verdict
from dray.scheduling.model import Pod
from dray.scheduling.scheduler import Scheduler

MOST_TREES: Final = 8
"""Of nodes that fit, so many get a tree of their own."""
_MOST_NAMES: Final = 6


class Verdicts:
    """The verdicts of the nodes: those that fit, those that lack devices, and the others by what they lack."""

    def __init__(self, inquiry: Inquiry, scheduler: Scheduler, pod: Pod, answer: Answer, only: str) -> None:
        self._state = scheduler.state
        self._verdicts = [each for each in answer.verdicts if only in ("", each.node)]
        self._rejections: list[Rejection] = []
        self._others: list[Verdict] = []
        for verdict in self._verdicts:
            if verdict.placement is not None:
                continue
            assert answer.wanted is not None
            node = self._state.nodes[verdict.node]
            rejection = inquiry.rejection(pod, answer.wanted, node) if verdict.lacks_devices else None
            if rejection is not None:
                self._rejections.append(rejection)
            else:
                self._others.append(verdict)

    def conclusion(self) -> str:
        """Why no node takes the pod."""
        concluded = conclude(self._rejections)
        others: dict[str, list[Verdict]] = {}
        for each in self._others:
            others.setdefault(_kind(each), []).append(each)
        reasons = ", ".join(f"{len(group):,} {kind}" for kind, group in others.items())
        if concluded is not None:
            words = concluding(concluded, self._state.inventory)
            return f"{words}; other nodes: {reasons}" if reasons else words
        if len(others) == 1:
            [group] = others.values()
            return f"no node takes it: {_best(group)}"
        return f"no node takes it: {reasons}" if reasons else "there are no nodes"

    def trees(self) -> Iterator[Tree]:
        reasoning = Reasoning(self._state.inventory)
        for verdict in [each for each in self._verdicts if each.placement is not None][:MOST_TREES]:
            yield Tree(f"node {verdict.node}: fits", [Tree(text) for text in _placed(verdict)])
        yield from reasoning.trees(self._rejections)
        yield from self._obstacles()
        yield from reasoning.selectors()

    def rows(self) -> list[Object]:
        """The same for programs, node by node."""
        rejections = {each.node: each for each in self._rejections}
        return [self._row(each, rejections.get(each.node)) for each in self._verdicts]

    def _row(self, verdict: Verdict, rejection: Rejection | None) -> Object:
        if rejection is not None:
            return rejection_row(rejection, self._state.inventory)
        if verdict.placement is None:
            return {
                "node": verdict.node,
                "fits": False,
                "obstacles": [*dict.fromkeys((*verdict.obstacles, *_details([verdict])))],
            }
        allocation = verdict.placement.allocation
        return allocation_row(allocation) if allocation else {"node": verdict.node, "fits": True, "claims": []}

    def _obstacles(self) -> Iterator[Tree]:
        grouped: dict[Hashable, list[Verdict]] = {}
        for verdict in self._others:
            grouped.setdefault(_likeness(verdict), []).append(verdict)
        for group in grouped.values():
            fit = "does not fit" if len(group) == 1 else "do not fit"
            details = _details(group) or [*group[0].obstacles]
            yield Tree(f"{nodes_text([each.node for each in group])}: {fit}", [*map(Tree, details)])


def _kind(verdict: Verdict) -> str:
    """The first obstacle, in few words."""
    if verdict.taints:
        return "tainted"
    if verdict.mismatches:
        return "without the labels that are wanted"
    return (verdict.obstacles or ("unsuitable",))[0]


def _best(group: Sequence[Verdict]) -> str:
    """What stands in the way on nodes of one kind, as on the one that has most."""
    first = group[0]
    if first.shortages:
        resource = first.shortages[0].resource
        found = [(short, each) for each in group for short in each.shortages if short.resource == resource]
        short, verdict = max(found, key=lambda each: each[0].left)
        where = f" on the best node, {verdict.node}" if len(group) > 1 else ""
        return _shortage(f"Insufficient {resource}", short) + where
    if len({_likeness(each) for each in group}) == 1:
        return "; ".join(_details(group))
    return _kind(first)


def _likeness(verdict: Verdict) -> Hashable:
    if verdict.mismatches:
        return tuple((each.key, each.operator, each.values) for each in verdict.mismatches)
    return tuple(_details([verdict])) or verdict.obstacles


def _details(group: Sequence[Verdict]) -> list[str]:
    """The reasons of nodes that say the same, with what is behind them."""
    first = group[0]
    if first.taints:
        return [_taint(each) for each in first.taints]
    if first.mismatches:
        return [_mismatch([each.mismatches[number] for each in group]) for number in range(len(first.mismatches))]
    known = {f"Insufficient {each.resource}": each for each in first.shortages}
    return [_shortage(reason, known[reason]) if reason in known else reason for reason in first.obstacles]


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"tainted {taint.get('key')}{value}:{taint.get('effect')}, not tolerated"


def _shortage(reason: str, short: Shortage) -> str:
    wanted, left, there = (_amount(short.resource, number) for number in (short.wanted, short.left, short.there))
    return f"{reason}: {wanted} wanted, {left} of {there} left"


_WANTS: Final = {
    "In": "must be {}",
    "NotIn": "must not be {}",
    "Exists": "must be there",
    "DoesNotExist": "must not be there",
    "Gt": "must be greater than {}",
    "Lt": "must be less than {}",
}


def _mismatch(group: Sequence[Mismatch]) -> str:
    """One demand, and what the nodes have instead."""
    first = group[0]
    values = " or ".join(first.values)
    wants = _WANTS.get(first.operator, f"{first.operator} {{}}").format(values)
    there = Counter(each.there for each in group)
    if list(there) == [None]:
        return f"label {first.key} {wants}, and is not there"
    if len(there) == 1:
        return f"label {first.key} {wants}, and is {first.there}"
    found = [f"{'not there' if value is None else value} ({number})" for value, number in there.most_common()]
    return f"label {first.key} {wants}, and is {few(found)}"


def holding(claim: Object) -> Tree:
    """What an allocated claim holds, and for whom."""
    namespace, name = claim["metadata"].get("namespace") or "", claim["metadata"]["name"]
    status = status_of(claim)
    allocation = status.get("allocation")
    if not allocation:
        return Tree(f"claim {namespace}/{name}: not allocated")
    results = allocation_results(allocation)
    root = Tree(f"claim {namespace}/{name}: allocated", [Tree(device(each)) for each in results])
    users = [f"{each.get('resource')}/{each.get('name')}" for each in status.get("reservedFor") or ()]
    root.branches.append(Tree(f"reserved for {few(users)}" if users else "reserved for nobody"))
    return root


def device(result: Object) -> str:
    consumed = ", ".join(f"{amount} {what}" for what, amount in mapping(result.get("consumedCapacity")).items())
    access = " (admin access)" if result.get("adminAccess") else ""
    where = "/".join((result["driver"], result["pool"], result["device"]))
    return f"{result['request']}: {where}{f' ({consumed})' if consumed else ''}{access}"


def _placed(verdict: Verdict) -> Iterator[str]:
    assert verdict.placement is not None
    allocation = verdict.placement.allocation
    for key, result in zip(allocation.claims, allocation.results, strict=True) if allocation else ():
        for each in result["devices"].get("results") or ():
            yield f"claim {'/'.join(key)}, {device(each)}"


def preemption(answer: Answer) -> Tree:
    assert answer.preemption is not None
    victims = [f"{'/'.join(each.key)} (priority {each.priority})" for each in answer.preemption.victims]
    if not victims:
        return Tree(f"will fit on node {answer.preemption.node} when the pods that are leaving are gone")
    return Tree(f"would fit on node {answer.preemption.node} without pods of lower priority: {few(victims)}")


def _amount(resource: str, number: int) -> str:
    if resource == "cpu":
        return f"{number / 1000:g}"
    if resource == "memory" or "storage" in resource or resource.startswith("hugepages-"):
        for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if abs(number) >= size:
                return f"{number / size:.4g}{unit}"
    return str(number)


def few(names: list[str]) -> str:
    return some(names, _MOST_NAMES)
