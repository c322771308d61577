"""SchedulingAlgorithm: finds a node for a pod. Quick filters run on all nodes, the search for devices on the best
nodes.

`schedule` changes no state. It returns a `Placement`, which `assume` puts into effect, or a `Diagnosis` that tells why
no node fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from dray.allocation import Policy, Rejection, RejectionKind, Work, WorkExhausted, allocate
from dray.allocation.nearness import nearest
from dray.api.objects import Object, status_of
from dray.scheduling.cluster.device_demand import CANNOT_ALLOCATE
from dray.scheduling.core.cycle import NO_CLAIMS, NO_DEVICES, Cycle, DevicePlan
from dray.scheduling.core.feasible_nodes import FeasibleNodes, FeasibleNodesCache
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import UNSURE, Diagnosis, Status
from dray.scheduling.plugin import Plugin
from dray.scheduling.plugins.dynamic_resources import NOT_AVAILABLE, DynamicResources

_NEAREST: Final = 4
"""The number of nodes on which the allocator explains what is missing."""
_MOST_EXPLAINED: Final = 64
"""A rejection of more requests than this is not explained: the search and the text would be too long."""
_FAILURES: Final = (Code.NODE_FAILED, Code.PLUGIN_FAILED)
_ALL_ASKED: Final = 100
"""Kubernetes filters all nodes of a smaller cluster; in a larger one it stops once enough nodes fit."""


@dataclass(frozen=True, slots=True)
class Placement:
    node: Node
    cycle: Cycle
    devices: DevicePlan


class SchedulingAlgorithm:
    def __init__(self, state: State, framework: Framework, devices: DynamicResources, policy: Policy) -> None:
        self._state = state
        self._framework = framework
        self._devices = devices
        self._policy = policy
        self.feasible_nodes = FeasibleNodesCache(state, framework)
        self.cycles = 0
        """The number of attempts that filtered nodes, for metrics."""

    def begin(self, pod: Pod, now: float, work: Work) -> Cycle:
        """Starts an attempt. Until the next attempt, evaluating selectors uses up this work budget."""
        self._state.inventory.selectors.charge(work)
        return Cycle(pod, now, work, NO_CLAIMS)

    def schedule(self, cycle: Cycle, known: Diagnosis | None = None) -> Placement | Diagnosis:
        """Finds the best node; the prefilter must have passed.

        `known` is the diagnosis of pods with the same signature, which is returned again if no node fits.
        """
        self.cycles += 1
        nominated = status_of(cycle.pod.document).get("nominatedNodeName")
        if nominated and isinstance(kept := self._nominated(cycle, nominated), Placement):
            return kept
        feasible = cycle.feasible = self.feasible_nodes.of(cycle)
        if feasible.unsure and (error := self.find_error(cycle)) is not None:
            return self._failed(error)
        own, comparing = self._framework.own_filters(cycle), self._framework.comparing(cycle)
        counts: Counter[Reason] = Counter()
        if cycle.nodes is None and not own and not comparing:
            with closing(feasible.best()) as nodes:
                answer = self._first(cycle, feasible, nodes, counts)
        else:
            answer = self._best(cycle, feasible, own, comparing, counts)
        if isinstance(answer, Placement):
            return answer
        if answer is not None:
            return self._failed(answer)
        if known is not None:
            return known
        if cycle.nodes is not None:
            counts[NOT_AVAILABLE.reasons[0]] += len(feasible.numbers - cycle.nodes)
        return self._diagnosis(cycle, feasible, feasible.counts + counts)

    def fits(self, cycle: Cycle, node: Node) -> Placement | Status:
        """Asks all filters about one node, in their order and in the current state."""
        self._framework.refresh(cycle)
        status = self._framework.filter(cycle, node)
        return status if status is not None else Placement(node, cycle, cycle.devices or NO_DEVICES)

    def assume(self, placement: Placement) -> None:
        """Assumes the pod on the node: its resources and devices are in use from now on."""
        cycle, node = placement.cycle, placement.node
        cycle.pod.take_extra(placement.devices.extra)
        cycle.devices = placement.devices
        try:
            self._state.place(cycle.pod, node.name)
            self._framework.reserve(cycle, node)
        except Exception:
            self._state.displace(cycle.pod, node.name)
            raise
        # The charge of the queue depends on the alternatives that were allocated.
        if cycle.pod.joins:
            self._state.queues.renew(cycle.pod)

    def take_back(self, placement: Placement) -> None:
        """Undoes `assume`: resources and devices of the pod are free again."""
        self._framework.unreserve(placement.cycle, placement.node)
        self._state.displace(placement.cycle.pod, placement.node.name, helps=False)

    def find_error(self, cycle: Cycle) -> Status | None:
        """The first error on one of the nodes. An error ends the attempt for all nodes."""
        state, feasible = self._state, cycle.feasible or self.feasible_nodes.of(cycle)
        if state.size >= _ALL_ASKED:
            return None
        own = self._framework.own_filters(cycle)
        for node in self._in_order(feasible.unsure):
            if self._framework.quick_filter(own, cycle, node) is not None:
                continue
            status = self._framework.lazy_filter(cycle, node)
            if status is None:
                continue
            if status.error:
                return status
            if not cycle.claims.allocated and not self._framework.is_cluster_wide(status.plugin):
                feasible.reject(node, status)
        return None

    def to_deallocate(self, cycle: Cycle) -> Object | None:
        """Returns a claim to deallocate: no other pod uses it, and without it the pod would fit on another node."""
        claims, devices = cycle.claims, self._devices
        idle = [claim for claim in claims.allocated if devices.is_releasable(claim, cycle.pod)]
        if not idle or cycle.nodes is None:
            return None
        for node in self._out_of_reach(cycle, cycle.nodes):
            for claim in idle:
                if claim in claims.unavailable or not devices.pod_claims.is_usable(claim, node):
                    return claim
        return None

    def _out_of_reach(self, cycle: Cycle, nodes: frozenset[int]) -> Iterator[Node]:
        """The nodes that reject the pod only because the devices of allocated claims cannot be used there."""
        own = self._framework.own_filters(cycle)
        cycle.nodes = None
        try:
            for node in self._in_order(self.feasible_nodes.of(cycle).numbers - nodes):
                if self._framework.quick_filter(own, cycle, node) is not None:
                    continue
                if self._framework.lazy_filter(cycle, node) is None:
                    yield node
        finally:
            cycle.nodes = nodes

    def _in_order(self, numbers: Iterable[int]) -> list[Node]:
        state = self._state
        ordered = sorted(numbers, key=state.ties.__getitem__)
        return [node for number in ordered if (node := state.numbered[number]) is not None]

    def _nominated(self, cycle: Cycle, name: str) -> Placement | Status | None:
        """Asks the node in the pod's nominatedNodeName; None if the node does not exist."""
        node = self._state.nodes.get(name)
        return self.fits(cycle, node) if node is not None and node.document is not None else None

    def _first(
        self, cycle: Cycle, feasible: FeasibleNodes, nodes: Iterable[Node], counts: Counter[Reason]
    ) -> Placement | Status | None:
        """Returns the first node on which the pod fits; a Status if a filter ends in an error, None if no node fits."""
        for node in nodes:
            status = self._framework.lazy_filter(cycle, node)
            if status is None:
                return Placement(node, cycle, cycle.devices or NO_DEVICES)
            if status.error:
                return status
            if cycle.claims.allocated or self._framework.is_cluster_wide(status.plugin):
                # Allocated claims or the queue may be the cause, which differ between pods with the same signature.
                counts.update(status.reasons)
            else:
                feasible.reject(node, status)
        return None

    def _best(
        self,
        cycle: Cycle,
        feasible: FeasibleNodes,
        own: list[Plugin],
        comparing: list[Plugin],
        counts: Counter[Reason],
    ) -> Placement | Status | None:
        """Returns the same as `_first`, for plugins that compare nodes with each other. Reasons that hold only for this
        pod are added to `counts`."""
        nodes = self._fitting(cycle, feasible, own, counts)
        while True:
            # Nodes that were rejected meanwhile for all pods with the signature are not asked again.
            left = [node for node in nodes if node.number in feasible.numbers]
            if not left:
                return None
            answer = self._first(cycle, feasible, self._ranked(cycle, feasible, comparing, left), counts)
            if not isinstance(answer, Placement) or not self._framework.rescore(cycle, answer.node):
                return answer

    def _fitting(self, cycle: Cycle, feasible: FeasibleNodes, own: list[Plugin], counts: Counter[Reason]) -> list[Node]:
        """The feasible nodes that also pass the filters whose answers hold for this pod alone."""
        numbers = feasible.numbers if cycle.nodes is None else feasible.numbers & cycle.nodes
        fitting = []
        for number in numbers:
            node = self._state.numbered[number]
            assert node is not None
            status = self._framework.quick_filter(own, cycle, node) if own else None
            if status is None:
                fitting.append(node)
            else:
                counts.update(status.reasons)
        return fitting

    def _ranked(self, cycle: Cycle, feasible: FeasibleNodes, comparing: list[Plugin], nodes: list[Node]) -> list[Node]:
        ties = self._state.ties
        totals = {node.number: feasible.score(node) for node in nodes}
        self._framework.compare(comparing, cycle, nodes, totals)
        return sorted(nodes, key=lambda node: (-totals[node.number], ties[node.number]))

    # Diagnosis

    def _failed(self, status: Status) -> Diagnosis:
        return Diagnosis(self._state.size, status, error=True)

    def diagnose(self, cycle: Cycle, nodes: Sequence[Node]) -> Diagnosis:
        """Returns why the pod fits on none of the nodes, by asking all filters in the current state."""
        counts: Counter[Reason] = Counter()
        short = []
        self._framework.refresh(cycle)
        for node in nodes:
            status = self._framework.quick_filter(self._framework.applying(cycle), cycle, node)
            status = CANNOT_ALLOCATE if status is None or status is UNSURE else status
            counts.update(status.reasons)
            if status is CANNOT_ALLOCATE:
                short.append(node)
        found = self._nearest(cycle, short)
        return Diagnosis(len(nodes), counts=tuple(sorted(counts.items(), key=_by_name)), nearest=found)

    def _diagnosis(self, cycle: Cycle, feasible: FeasibleNodes, counts: Counter[Reason]) -> Diagnosis:
        size = self._state.size
        found, wanted = None, CANNOT_ALLOCATE.reasons[0]
        if wanted in counts:
            found = self._nearest(
                cycle,
                [node for node in self._state if (status := feasible.status(node)) and wanted in status.reasons],
                feasible.distances,
            )
        failed = any(reason.code in _FAILURES for reason in counts)
        return Diagnosis(size, counts=tuple(sorted(counts.items(), key=_by_name)), nearest=found, error=failed)

    def _nearest(
        self, cycle: Cycle, short: Sequence[Node], distances: dict[int, tuple[int, int]] | None = None
    ) -> Rejection | None:
        """Returns the allocator's rejection on the node in `short` where the fewest devices are missing.

        `distances` are known distances by node number; new ones are added.
        """
        state, demand = self._state, cycle.claims.demand
        if not short or len(demand.requests) > _MOST_EXPLAINED:
            return None
        known = {} if distances is None else distances

        def nearness(node: Node) -> tuple[tuple[int, int], str]:
            found = known.get(node.number)
            if found is None:
                found = known[node.number] = demand.distance(state.inventory, node)
            return found, node.name

        try:
            near = nsmallest(_NEAREST, short, key=nearness)
        except WorkExhausted:
            return None
        answers = [
            allocate(
                state.inventory,
                node.document,
                claims,
                beside=cycle.claims.allocated,
                policy=self._policy,
                work=cycle.work,
                freeing=False,
            )
            for node in near
            if node.document is not None and (claims := self._devices.claims_on(cycle, node)[0])
        ]
        return nearest(
            answer for answer in answers if isinstance(answer, Rejection) and answer.kind is not RejectionKind.UNDECIDED
        )


def _by_name(counted: tuple[Reason, int]) -> tuple[str, tuple[str, ...]]:
    return counted[0].code.name, counted[0].args
