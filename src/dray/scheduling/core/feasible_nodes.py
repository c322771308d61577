"""FeasibleNodes: the nodes on which pods of one signature fit, their scores, and why the other nodes are rejected.

All nodes are filtered once, and then only nodes that changed. The best node is on top of a heap; entries of nodes that
changed since are dropped when they reach the top.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model import faults
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import UNSURE, Status

_FEWEST_KEPT: Final = 64
MOST_KEPT: Final = 256
_MOST_ANSWERS: Final = 64 * 5000
"""Clusters with fewer than 5,000 nodes keep more signatures, as long as there are no more answers than this."""
_NO_NODE: Final = Status("", ())
"""The status of numbers that no node has."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parts of a pod that kept answers depend on. Both parts are compared by identity."""

    requirements: Requirements
    demand: DeviceDemand


class FeasibleNodes:
    def __init__(self, state: State, framework: Framework, cycle: Cycle) -> None:
        """`cycle` is the cycle of a pod with the signature, after its prefilter."""
        self.signature = signature_of(cycle)
        self._state = state
        self._framework = framework
        self._filters = framework.kept_filters(cycle)
        self._position = -1
        self._statuses: list[Status | None] = []
        """The status by node number; None if the node is feasible."""
        self._scores: list[int] = []
        self._score_revision = 0
        self._stamps: list[int] = []
        self._heap: list[tuple[int, int, int, int]] = []
        self._counts: Counter[Reason] = Counter()
        self.numbers: set[int] = set()
        """The numbers of the feasible nodes."""
        self.unsure: set[int] = set()
        """The numbers of feasible nodes on which the attempt may end in an error."""
        self.ranks: dict[int, int] = {}
        """The ranks of the alternatives (firstAvailable) by node number; written by DynamicResources."""
        self.distances: dict[int, tuple[int, int]] = {}
        """How far nodes are from serving the claims. Without it, explaining refusals took a sixth of the time."""

    def refresh(self, cycle: Cycle) -> None:
        state = self._state
        changed = state.touched.since(self._position)
        self._position = state.touched.end
        if changed is None:
            # Plugins that skipped pods of the signature may apply to them by now.
            self._filters = self._framework.kept_filters(cycle)
            for values in (self._statuses, self._scores, self._stamps, self._heap):
                values.clear()
            self._counts.clear()
            self.numbers.clear()
            self.unsure.clear()
            self.ranks.clear()
            self.distances.clear()
            changed = set(range(len(state.numbered)))
            self._score_revision = self._framework.score_revision(cycle)
        missing = len(state.numbered) - len(self._statuses)
        if missing > 0:
            self._statuses += [_NO_NODE] * missing
            self._scores += [0] * missing
            self._stamps += [0] * missing
        # Filters may evaluate new CEL expressions; half of the budget is kept for the attempt itself.
        work = state.inventory.selectors.work
        with work.share(work.left // 2):
            for number in changed:
                self._filter(cycle, number)
            if self._framework.score_revision(cycle) != self._score_revision:
                self._score_all(cycle)

    def _filter(self, cycle: Cycle, number: int) -> None:
        state = self._state
        node = state.numbered[number]
        if node is None or node.document is None:
            self._set(number, _NO_NODE)
            return
        status = self._framework.quick_filter(self._filters, cycle, node)
        unsure = status is UNSURE
        if unsure:
            status = None
        self._set(number, status)
        if status is None and self._score(cycle, node) and unsure:
            self.unsure.add(number)

    def _score_all(self, cycle: Cycle) -> None:
        """Scores all feasible nodes anew."""
        self._score_revision = self._framework.score_revision(cycle)
        self._heap.clear()
        for number in sorted(self.numbers):
            node = self._state.numbered[number]
            assert node is not None
            self._score(cycle, node)

    def _score(self, cycle: Cycle, node: Node) -> bool:
        """Returns False if scoring fails; the node is then not feasible, but others are."""
        number, state = node.number, self._state
        try:
            score = self._scores[number] = self._framework.score(cycle, node)
        except Exception as error:
            state.report(f"scoring node {node.name}", error)
            self._set(number, Status.of("", Code.NODE_FAILED, faults.text(error)))
            return False
        heappush(self._heap, (-score, state.ties[number], number, self._stamps[number]))
        return True

    def _set(self, number: int, status: Status | None) -> None:
        self._stamps[number] += 1
        self.unsure.discard(number)
        self.ranks.pop(number, None)
        self.distances.pop(number, None)
        before = self._statuses[number]
        if before is not None:
            self._counts.subtract(before.reasons)
        self._statuses[number] = status
        if status is None:
            self.numbers.add(number)
        else:
            self._counts.update(status.reasons)
            self.numbers.discard(number)

    def reject(self, node: Node, status: Status) -> None:
        """Rejects a feasible node until it changes."""
        self._set(node.number, status)

    def score(self, node: Node) -> int:
        return self._scores[node.number]

    def status(self, node: Node) -> Status | None:
        return self._statuses[node.number]

    def best(self) -> Generator[Node, None, None]:
        """Yields the feasible nodes, the best first. Nodes that are not rejected meanwhile stay on the heap."""
        seen = []
        try:
            while self._heap:
                entry = heappop(self._heap)
                number = entry[2]
                if entry[3] != self._stamps[number]:
                    continue
                seen.append(entry)
                node = self._state.numbered[number]
                assert node is not None
                yield node
        finally:
            for entry in seen:
                if entry[3] == self._stamps[entry[2]]:
                    heappush(self._heap, entry)

    @property
    def counts(self) -> Counter[Reason]:
        """The number of nodes with each reason."""
        return +self._counts


class FeasibleNodesCache:
    """The feasible nodes of the signatures that were used last."""

    def __init__(self, state: State, framework: Framework) -> None:
        self._state = state
        self._framework = framework
        self._known: OrderedDict[tuple[int, int], FeasibleNodes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, cycle: Cycle) -> FeasibleNodes:
        """Returns the feasible nodes for the pod of the cycle, up to date with all changes of nodes."""
        requirements, demand = cycle.pod.requirements, cycle.claims.demand
        key = (id(requirements), id(demand))
        found = self._known.get(key)
        # An id may be reused for another object; cached entries keep their own signature alive.
        if found is None or found.signature.requirements is not requirements or found.signature.demand is not demand:
            found = self._known[key] = FeasibleNodes(self._state, self._framework, cycle)
            if len(self._known) > self._most():
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        found.refresh(cycle)
        return found

    def _most(self) -> int:
        return min(MOST_KEPT, max(_FEWEST_KEPT, _MOST_ANSWERS // (len(self._state.numbered) + 1)))


def signature_of(cycle: Cycle) -> Signature:
    return Signature(cycle.pod.requirements, cycle.claims.demand)
