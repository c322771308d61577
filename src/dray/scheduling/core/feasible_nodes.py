"""FeasibleNodes: which nodes could take pods of one signature, which is best, and why the others cannot.

They are worked out once for all nodes and then only for those that changed. The best node is on top of a heap; entries
of nodes that changed since are thrown away when they come up.
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

_MOST_KEPT: Final = 64
_GONE: Final = Status("", ())
"""Of numbers that no node has."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What the answers that are kept depend on of a pod. Both parts are compared by identity."""

    requirements: Requirements
    demand: DeviceDemand


class FeasibleNodes:
    def __init__(self, state: State, framework: Framework, cycle: Cycle) -> None:
        """`cycle` is of a pod with the signature, past its prefilter."""
        self.signature = signature_of(cycle)
        self._state = state
        self._framework = framework
        self._filters = framework.kept_filters(cycle)
        self._position = -1
        self._statuses: list[Status | None] = []
        """By node; None where it could take one."""
        self._scores: list[int] = []
        self._stamps: list[int] = []
        self._heap: list[tuple[int, int, int, int]] = []
        self._counts: Counter[Reason] = Counter()
        self.numbers: set[int] = set()
        """Of the nodes that could take one."""
        self.unsure: set[int] = set()
        """Those where the attempt may end in an error."""
        self.ranks: dict[int, int] = {}
        """How good the alternatives are that a node offers; kept by DynamicResources."""

    def refresh(self, cycle: Cycle) -> None:
        state = self._state
        state.looks += 1
        changed = state.touched.since(self._position)
        self._position = state.touched.end
        if changed is None:
            # Something may have come that matters to pods of the signature by now.
            self._filters = self._framework.kept_filters(cycle)
            for each in (self._statuses, self._scores, self._stamps, self._heap):
                each.clear()
            self._counts.clear()
            self.numbers.clear()
            self.unsure.clear()
            self.ranks.clear()
            changed = set(range(len(state.numbered)))
        missing = len(state.numbered) - len(self._statuses)
        if missing > 0:
            self._statuses += [_GONE] * missing
            self._scores += [0] * missing
            self._stamps += [0] * missing
        # Expressions that are new are evaluated on the way; the attempt itself needs its part.
        work = state.inventory.selectors.work
        with work.share(work.left // 2):
            for number in changed:
                self._look(cycle, number)

    def _look(self, cycle: Cycle, number: int) -> None:
        state = self._state
        node = state.numbered[number]
        if node is None or node.document is None:
            self._set(number, _GONE)
            return
        status = self._framework.quick_filter(self._filters, cycle, node)
        unsure = status is UNSURE
        if unsure:
            status = None
        self._set(number, status)
        if status is not None:
            return
        try:
            score = self._scores[number] = self._framework.score(cycle, node)
        except Exception as error:
            # A node that cannot be judged does not keep pods from the others.
            state.report(f"scoring node {node.name}", error)
            self._set(number, Status.of("", Code.NODE_FAILED, faults.text(error)))
            return
        if unsure:
            self.unsure.add(number)
        heappush(self._heap, (-score, state.ties[number], number, self._stamps[number]))

    def _set(self, number: int, status: Status | None) -> None:
        self._stamps[number] += 1
        self.unsure.discard(number)
        self.ranks.pop(number, None)
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
        """The node cannot take one after all, until it changes."""
        self._set(node.number, status)

    def score(self, node: Node) -> int:
        return self._scores[node.number]

    def status(self, node: Node) -> Status | None:
        return self._statuses[node.number]

    def best(self) -> Generator[Node, None, None]:
        """The nodes that could take one, the best first. What is not rejected stays on the heap."""
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
        """On how many nodes each reason was given."""
        return +self._counts


class FeasibleNodesCache:
    """Those that were asked for lately."""

    def __init__(self, state: State, framework: Framework) -> None:
        self._state = state
        self._framework = framework
        self._known: OrderedDict[tuple[int, int], FeasibleNodes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, cycle: Cycle) -> FeasibleNodes:
        """Up to date."""
        requirements, demand = cycle.pod.requirements, cycle.claims.demand
        key = (id(requirements), id(demand))
        found = self._known.get(key)
        # An id may be used again for something else; what is kept keeps its own signature alive.
        if found is None or found.signature.requirements is not requirements or found.signature.demand is not demand:
            found = self._known[key] = FeasibleNodes(self._state, self._framework, cycle)
            if len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        found.refresh(cycle)
        return found


def signature_of(cycle: Cycle) -> Signature:
    return Signature(cycle.pod.requirements, cycle.claims.demand)
