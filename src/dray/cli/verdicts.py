"""What nodes say about a pod, and what claims hold, as trees of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.allocation.text import Tree, tree
from dray.scheduling.inquiry import Answer, Inquiry, Verdict
from dray.scheduling.model import Pod
from dray.scheduling.scheduler import Scheduler

Object = dict[str, Any]

MOST_TREES: Final = 8
"""Of nodes that lack devices, so many get a tree of their own."""
_MOST_NAMES: Final = 6


class NodeTrees:
    """The verdicts of the nodes: those that fit, those that lack devices, and the others by what they lack."""

    def __init__(self, inquiry: Inquiry, scheduler: Scheduler, pod: Pod, answer: Answer, only: str) -> None:
        self._inquiry = inquiry
        self._state = scheduler.state
        self._pod = pod
        self._answer = answer
        self._verdicts = [each for each in answer.verdicts if only in ("", each.node)]

    def trees(self) -> Iterator[Tree]:
        for verdict in [each for each in self._verdicts if each.placement is not None][:MOST_TREES]:
            yield Tree(f"node {verdict.node}: fits", [Tree(text) for text in _placed(verdict)])
        short = [each for each in self._verdicts if each.lacks_devices]
        for verdict in short[:MOST_TREES]:
            yield self._rejected(verdict)
        if rest := short[MOST_TREES:]:
            yield Tree(f"{len(rest)} more nodes without such devices; --node NAME asks one of them")
        grouped: dict[tuple[str, ...], list[str]] = {}
        for verdict in self._verdicts:
            if verdict.placement is None and not verdict.lacks_devices:
                grouped.setdefault(tuple(_obstacles(verdict)), []).append(verdict.node)
        for obstacles, nodes in grouped.items():
            title = f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {few(nodes)}"
            yield Tree(f"{title}: does not fit" if len(nodes) == 1 else f"{title}: do not fit", [*map(Tree, obstacles)])

    def _rejected(self, verdict: Verdict) -> Tree:
        assert self._answer.wanted is not None
        rejection = self._inquiry.rejection(self._pod, self._answer.wanted, self._state.nodes[verdict.node])
        if rejection is None:
            return Tree(f"node {verdict.node}: does not fit", [*map(Tree, verdict.obstacles)])
        return tree(rejection)


def holding(claim: Object) -> Tree:
    """What an allocated claim holds, and for whom."""
    namespace, name = claim["metadata"].get("namespace") or "", claim["metadata"]["name"]
    status = claim.get("status") or {}
    allocation = status.get("allocation")
    if not allocation:
        return Tree(f"claim {namespace}/{name}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or ()
    root = Tree(f"claim {namespace}/{name}: allocated", [Tree(device(each)) for each in results])
    users = [f"{each.get('resource')}/{each.get('name')}" for each in status.get("reservedFor") or ()]
    root.branches.append(Tree(f"reserved for {few(users)}" if users else "reserved for nobody"))
    return root


def device(result: Object) -> str:
    consumed = ", ".join(f"{amount} {what}" for what, amount in (result.get("consumedCapacity") or {}).items())
    access = " (admin access)" if result.get("adminAccess") else ""
    where = "/".join((result["driver"], result["pool"], result["device"]))
    return f"{result['request']}: {where}{f' ({consumed})' if consumed else ''}{access}"


def _placed(verdict: Verdict) -> Iterator[str]:
    assert verdict.placement is not None
    allocation = verdict.placement.allocation
    for key, result in zip(allocation.claims, allocation.results, strict=True) if allocation else ():
        for each in result["devices"].get("results") or ():
            yield f"claim {'/'.join(key)}, {device(each)}"


def _obstacles(verdict: Verdict) -> Iterator[str]:
    """The reasons, with what is behind them."""
    if verdict.taints:
        for taint in verdict.taints:
            value = f"={taint['value']}" if taint.get("value") else ""
            yield f"tainted {taint.get('key')}{value}:{taint.get('effect')}, not tolerated"
        return
    known = {f"Insufficient {each.resource}": each for each in verdict.shortages}
    for reason in verdict.obstacles:
        short = known.get(reason)
        if short is None:
            yield reason
        else:
            amounts = [_amount(short.resource, number) for number in (short.wanted, short.left, short.there)]
            yield "{}: {} wanted, {} of {} left".format(reason, *amounts)


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
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
