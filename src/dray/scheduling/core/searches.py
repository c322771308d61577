"""Searches for devices that an attempt gave up undecided: they go on elsewhere, on a copy, with a larger bound.

A pod is not tried again for it: what comes out is remembered by the demand, the node and a stamp of all the search
depends on. "No" and "still undecided" hold until the stamp changes. Devices that were found are only a proposal, which
is checked against the state of the moment before anything is committed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.objects import Object
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code, Reason

_MOST_FINDINGS: Final = 1_000
_MOST_WAITING: Final = 1_000
_CANNOT_ALLOCATE: Final = Reason(Code.CANNOT_ALLOCATE)


@dataclass(frozen=True, eq=False, slots=True)
class FurtherSearch:
    """What to search: the claims on a node, as things stood at the moment."""

    pod: str
    """The uid of a pod that waits for the answer."""
    demand: DeviceDemand
    node: Object
    claims: Sequence[Object]
    stamp: Hashable
    snapshot: Object
    """The part of the inventory that the node sees, as plain data."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`results` if devices were found; else why not."""

    results: tuple[Object, ...] | None = None
    reason: Reason = _CANNOT_ALLOCATE
    columns: Object | None = None
    """Verdicts of selectors by slice and expression: they need not be evaluated here."""


@dataclass(frozen=True, slots=True)
class Finding:
    demand: DeviceDemand
    stamp: Hashable
    outcome: Outcome


class Searches:
    """Those that are waiting, in order, and what the finished ones found."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: OrderedDict[tuple[int, str], tuple[str, DeviceDemand, Sequence[Object]]] = OrderedDict()
        self._findings: OrderedDict[tuple[int, str], Finding] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def known(self, demand: DeviceDemand, node: Node) -> Outcome | None:
        """What was found for the demand on the node, if it still may hold."""
        finding = self._findings.get((id(demand), node.name)) if self._findings else None
        if finding is None or finding.demand is not demand:
            return None
        if finding.outcome.results is None and finding.stamp != self._stamp(node):
            return None
        return finding.outcome

    def want(self, pod: str, demand: DeviceDemand, node: Node, claims: Sequence[Object]) -> None:
        key = (id(demand), node.name)
        self._findings.pop(key, None)
        if key not in self._waiting and len(self._waiting) < _MOST_WAITING:
            self._waiting[key] = (pod, demand, claims)

    def pending(self, demand: DeviceDemand) -> bool:
        """Whether there are more of that demand."""
        return any(each is demand for _, each, _ in self._waiting.values())

    def next(self, waits: Callable[[str, DeviceDemand], bool]) -> FurtherSearch | None:
        """The next one that somebody still waits for."""
        while self._waiting:
            (_, name), (pod, demand, claims) = self._waiting.popitem(last=False)
            node = self._state.nodes.get(name)
            if node is None or node.document is None or not waits(pod, demand):
                continue
            stamp = self._stamp(node)
            if stamp is not None:
                snapshot = self._state.inventory.snapshot(self._state.inventory.view(node.document))
                return FurtherSearch(pod, demand, node.document, claims, stamp, snapshot)
        return None

    def found(self, search: FurtherSearch, outcome: Outcome) -> None:
        """The search is over: whoever looks at the node next is told."""
        if outcome.columns:
            self._state.inventory.learn(search.snapshot["slices"], outcome.columns)
        name = search.node["metadata"]["name"]
        self._findings[id(search.demand), name] = Finding(search.demand, search.stamp, outcome)
        if len(self._findings) > _MOST_FINDINGS:
            self._findings.popitem(last=False)
        node = self._state.nodes.get(name)
        if node is not None:
            self._state.touched.note(node.number)

    def _stamp(self, node: Node) -> Any:
        view = self._state.inventory.judged_view(node.document)
        return self._state.inventory.stamp(view) if view is not None else None
