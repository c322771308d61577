"""Searches: searches for devices that used up the work budget of an attempt and continue in the background.

They run on a copy of the state, with a larger budget. The result is kept by demand and node, with a stamp of everything
that the search depends on. A result without devices is valid until the stamp changes. Devices that were found are only
a proposal, which is checked against the current state before it is committed.
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
    """The input of a search: the claims, the node, and the devices at that time."""

    pod: str
    """The uid of a pod that waits for the answer."""
    demand: DeviceDemand
    node: Object
    claims: Sequence[Object]
    stamp: Hashable
    snapshot: Object
    """The part of the inventory that the node can use, as plain data."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a search: `results` if devices were found, otherwise `reason`."""

    results: tuple[Object, ...] | None = None
    reason: Reason = _CANNOT_ALLOCATE
    columns: Object | None = None
    """Results of selectors by slice and expression, so that the scheduler need not evaluate them again."""


@dataclass(frozen=True, slots=True)
class Finding:
    demand: DeviceDemand
    stamp: Hashable
    outcome: Outcome


class Searches:
    """The searches that wait, in order, and the results of finished searches."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._waiting: OrderedDict[tuple[int, str], tuple[str, DeviceDemand, Sequence[Object]]] = OrderedDict()
        self._findings: OrderedDict[tuple[int, str], Finding] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def known(self, demand: DeviceDemand, node: Node) -> Outcome | None:
        """Returns the result for the demand on the node, if it is still valid."""
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
        """Whether a search for the demand waits."""
        return any(waiting is demand for _, waiting, _ in self._waiting.values())

    def next(self, waits: Callable[[str, DeviceDemand], bool]) -> FurtherSearch | None:
        """Returns the next search whose pod still waits for it, as `waits` tells."""
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
        """Keeps the result of a finished search; the node is filtered again."""
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
