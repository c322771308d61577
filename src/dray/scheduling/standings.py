"""How the nodes stand for pods of one kind: which could take one, which is best, and why the others cannot.

A `Standing` is worked out once for all nodes and then only for those that changed. The best node is on top of a heap;
entries of nodes that changed since are thrown away when they come up.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from dray.allocation.node_selectors import NodeSelectorError
from dray.scheduling import faults, fit, packing, scores
from dray.scheduling.demand import Demand
from dray.scheduling.model import Needs, Node
from dray.scheduling.state import State

_MOST_STANDINGS: Final = 64
_NOTHING: Final[frozenset[str]] = frozenset()
GONE: Final = ("node(s) are gone",)


@dataclass(frozen=True, eq=False, slots=True)
class Kind:
    """Pods that are alike for the scheduler, whatever they are called."""

    needs: Needs
    demand: Demand


def obstacles(state: State, kind: Kind, node: Node) -> tuple[str, ...]:
    """Why the node cannot take such a pod, in the order of Kubernetes' filters; the first that speaks is enough."""
    return _outlook(state, kind, node)[0]


def _outlook(state: State, kind: Kind, node: Node) -> tuple[tuple[str, ...], bool]:
    """The obstacles, and whether the attempt may end in an error there."""
    reason = fit.standing(kind.needs, node)
    if reason is not None:
        return (reason,), False
    demand = kind.demand
    served = demand.served(node) if demand else _NOTHING
    reasons = fit.room(kind.needs, {}, node, served)
    if reasons or not demand:
        return reasons, False
    reason, doubtful = demand.outlook(state.inventory, state.resources, node)
    return (reason,) if reason is not None else (), doubtful


class Standing:
    def __init__(self, state: State, kind: Kind, *, weigh_devices: int = 0) -> None:
        self._state = state
        self.kind = kind
        self._weigh_devices = weigh_devices
        self._position = -1
        self._reasons: list[tuple[str, ...]] = []
        """By node; nothing where it could take one."""
        self._scores: list[int] = []
        self._ranks: list[int] = []
        self._stamps: list[int] = []
        self._heap: list[tuple[int, int, int, int]] = []
        self._counts: Counter[str] = Counter()
        self.feasible: set[int] = set()
        self.doubtful: set[int] = set()
        """Those where the attempt may end in an error."""

    def refresh(self) -> None:
        state = self._state
        changed = state.touched.since(self._position)
        self._position = state.touched.end
        if changed is None:
            self._reasons.clear()
            self._scores.clear()
            self._ranks.clear()
            self._stamps.clear()
            self._heap.clear()
            self._counts.clear()
            self.feasible.clear()
            self.doubtful.clear()
            changed = set(range(len(state.numbered)))
        missing = len(state.numbered) - len(self._reasons)
        if missing > 0:
            self._reasons += [GONE] * missing
            self._scores += [0] * missing
            self._ranks += [0] * missing
            self._stamps += [0] * missing
        # Expressions that are new are evaluated on the way; the attempt itself needs its part.
        work = state.inventory.selectors.work
        with work.share(work.left // 2):
            for number in changed:
                self._look(number)

    def _look(self, number: int) -> None:
        state = self._state
        node = state.numbered[number]
        if node is None or node.document is None:
            self._set(number, GONE)
            return
        try:
            self._rate(number, node)
        except Exception as error:
            # A node that cannot be judged does not keep pods from the others.
            state.report(f"judging node {node.name}", error)
            self._set(number, (faults.on_node(error),))

    def _rate(self, number: int, node: Node) -> None:
        state, kind = self._state, self.kind
        assert node.document is not None
        reasons, doubtful = _outlook(state, kind, node)
        self._set(number, reasons)
        if reasons:
            return
        if doubtful:
            self.doubtful.add(number)
        score = scores.resource_score(kind.needs, node, state.images, state.size)
        if kind.demand and kind.demand.prioritised:
            self._ranks[number] = kind.demand.rank(state.inventory, node)
        if self._weigh_devices:
            score += self._weigh_devices * self._device_score(node)
        self._scores[number] = score
        heappush(self._heap, (-score, state.ties[number], number, self._stamps[number]))

    def _device_score(self, node: Node) -> int:
        """The better a node is to pack devices the higher, for all pods; to spread them, only those with claims matter,
        and what counts is how many devices are in use."""
        inventory, kind = self._state.inventory, self.kind
        assert node.document is not None
        try:
            view = inventory.view(node.document)
        except NodeSelectorError:
            return 0
        if self._weigh_devices > 0:
            return -packing.waste(inventory, view, node, kind.needs, kind.demand.takes)
        used = (view.held | view.shared).bit_count()
        return used * 100 // max(1, len(view.devices)) if kind.demand else 0

    def _set(self, number: int, reasons: tuple[str, ...]) -> None:
        self._stamps[number] += 1
        self.doubtful.discard(number)
        before = self._reasons[number]
        if before is not reasons and before is not GONE:
            self._counts.subtract(before)
        self._reasons[number] = reasons
        if reasons is GONE:
            self.feasible.discard(number)
        elif reasons:
            if before is not reasons:
                self._counts.update(reasons)
            self.feasible.discard(number)
        else:
            self.feasible.add(number)

    def refuse(self, node: Node, reason: str) -> None:
        """The node cannot take one after all, until it changes."""
        self._set(node.number, (reason,))

    def lower(self, node: Node, rank: int) -> None:
        """The node offers less than it seemed to, until it changes."""
        self._ranks[node.number] = rank

    def rank(self, node: Node) -> int:
        return self._ranks[node.number]

    def score(self, node: Node) -> int:
        return self._scores[node.number]

    def best(self) -> Generator[Node, None, None]:
        """The nodes that could take one, the best first. What is not refused stays on the heap."""
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

    def reasons(self, node: Node) -> tuple[str, ...]:
        return self._reasons[node.number]

    @property
    def counts(self) -> Counter[str]:
        """How many nodes have each reason."""
        return +self._counts


class Standings:
    """The standings that were asked for lately."""

    def __init__(self, state: State, *, weigh_devices: int = 0) -> None:
        self._state = state
        self._weigh_devices = weigh_devices
        self._known: OrderedDict[tuple[int, int], Standing] = OrderedDict()

    def of(self, needs: Needs, demand: Demand) -> Standing:
        """Up to date."""
        key = (id(needs), id(demand))
        standing = self._known.get(key)
        # An id may be used again for something else; the standing keeps its own kind alive.
        if standing is None or standing.kind.needs is not needs or standing.kind.demand is not demand:
            standing = self._known[key] = Standing(self._state, Kind(needs, demand), weigh_devices=self._weigh_devices)
            if len(self._known) > _MOST_STANDINGS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        standing.refresh()
        return standing
