"""Preemption: which pods to remove so that another finds its place, for resources, for ports and for devices.

On each node that comes into question all pods of lower priority are taken away in thought, with the devices that only
they use, also those that sit on other nodes but hold devices this node sees. If the pod then fits, as many as possible
are let back, the most important first; the rest are the victims. The node with the cheapest victims wins. Every step is
undone before the next node is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.devices import DeviceID
from dray.api.objects import Object, is_deleting, key_of, status_of
from dray.api.resource_claims import reserved_for
from dray.scheduling.actions import Preemption
from dray.scheduling.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.cycle import Cycle
from dray.scheduling.disruption_budgets import DisruptionBudgets
from dray.scheduling.model import Node, Pod
from dray.scheduling.plugins.dynamic_resources import UNDECIDED, all_devices
from dray.scheduling.plugins.node_resources_fit import fits_without
from dray.scheduling.preemption_trial import PreemptionTrial, consumers
from dray.scheduling.state import State
from dray.scheduling.status import Status

_FEWEST_NODES: Final = 100
# So that one more victim always counts for more than none, whatever its priority.
_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class _Candidate:
    preemption: Preemption
    violations: int

    def cost(self) -> tuple[int, int, int, int]:
        priorities = [victim.priority for victim in self.preemption.victims]
        total = sum(priority + _OFFSET for priority in priorities)
        return self.violations, max(priorities, default=-_OFFSET), total, len(priorities)


class Preemptor:
    """`waits` tells whether a pod that is on no node is still there.

    Unless `for_devices`, pods are removed for resources and ports only: to others their devices stay in use.
    """

    def __init__(
        self,
        state: State,
        algorithm: SchedulingAlgorithm,
        waits: Callable[[str], bool] = lambda _: False,
        *,
        for_devices: bool = True,
    ) -> None:
        self._state = state
        self._algorithm = algorithm
        self._waits = waits
        self._for_devices = for_devices
        self.budgets = DisruptionBudgets()
        self.passed_over = False
        """Whether a pod was passed over only because it is being bound."""

    def find(self, cycle: Cycle) -> Preemption | None:
        """The cheapest way to make room for the pod, or None."""
        state, here = self._state, cycle.nodes
        feasible = self._algorithm.feasible_nodes.of(cycle)
        nodes = [
            node for node in state if (here is None or node.number in here) and _is_resolvable(feasible.status(node))
        ]
        nodes.sort(key=lambda node: state.ties[node.number])
        most = max(_FEWEST_NODES, len(nodes) // 10)
        found: list[_Candidate] = []
        for node in nodes:
            try:
                candidate = self._try(cycle, node)
            except Exception as error:
                state.report(f"preemption on node {node.name}", error)
                continue
            if candidate is not None:
                found.append(candidate)
                if not candidate.preemption.victims or len(found) >= most:
                    break
        if not found:
            return None
        return min(found, key=lambda each: (*each.cost(), *_latest_start(each.preemption.victims))).preemption

    def may_help(self, cycle: Cycle, node: Node, status: Status) -> bool:
        """Whether there is a point in trying the pod again, as far as can be told cheaply: `status` is what the node
        says now, and pods of lower priority could go."""
        pod = cycle.pod
        if not status.resolvable:
            return False
        lower = [each for each in node.pods.values() if each.priority < pod.priority and self._state.bound(each)]
        return bool(lower) and fits_without(pod.requirements, node, lower, cycle.claims.demand.served(node))

    def _try(self, cycle: Cycle, node: Node) -> _Candidate | None:
        lower = list(self._lower(cycle.pod, node))
        orphans = self._orphans(node) if cycle.claims.demand and self._for_devices else []
        if not lower and not orphans:
            return None
        own = {key_of(claim) for claim in cycle.claims.allocated}
        trial = PreemptionTrial(self._state, own, for_devices=self._for_devices)
        try:
            trial.release(orphans)
            trial.remove(each for each in lower if is_deleting(each.document))
            placement = self._algorithm.fits(cycle, node)
            if isinstance(placement, Placement):
                return _Candidate(Preemption(node.name, (), all_devices(placement.devices)), 0)
            staying = [each for each in lower if not is_deleting(each.document)]
            trial.remove(staying)
            placement = self._algorithm.fits(cycle, node)
            if not isinstance(placement, Placement):
                return None
            spared = self._reprieve(cycle, node, trial, staying)
            placement = self._algorithm.fits(cycle, node)
            if spared is None or not isinstance(placement, Placement):
                return None
            victims, violations = spared
            return _Candidate(Preemption(node.name, tuple(victims), all_devices(placement.devices)), violations)
        finally:
            trial.undo()

    def _reprieve(
        self, cycle: Cycle, node: Node, trial: PreemptionTrial, lower: Sequence[Pod]
    ) -> tuple[list[Pod], int] | None:
        """Lets back whom it can, those whose removal would violate a budget first; None where that stays undecided."""
        violating, others = self.budgets.split(sorted(lower, key=_importance))
        victims, violations = [], 0
        for group, protecting in ((violating, True), (others, False)):
            for each in group:
                trial.restore(each)
                answer = self._algorithm.fits(cycle, node)
                if isinstance(answer, Placement):
                    continue
                if answer is UNDECIDED:
                    return None
                trial.remove([each])
                victims.append(each)
                violations += protecting
        return victims, violations

    def _lower(self, pod: Pod, node: Node) -> Iterator[Pod]:
        """Pods of lower priority on the node, or elsewhere with devices that the node sees."""
        away = [self._state.placed(uid) for uid in self._holders(node)] if self._for_devices else []
        elsewhere = [each for each in away if each is not None and each.uid not in node.pods]
        for each in (*node.pods.values(), *elsewhere):
            if each.priority >= pod.priority:
                continue
            if self._state.bound(each):
                yield each
            else:
                self.passed_over = True

    def _holders(self, node: Node) -> set[str]:
        """The pods anywhere that use devices which are not of one node only."""
        return {
            uid
            for device, claim in self._held(node)
            if self._state.inventory.viewers(device) is None
            for uid in consumers(claim)
        }

    def _orphans(self, node: Node) -> list[Object]:
        """Claims with devices that the node sees, whose users are all gone: they are about to be deallocated."""
        return [
            claim
            for _, claim in self._held(node)
            if (users := reserved_for(claim)) and not any(map(self._is_there, users))
        ]

    def _is_there(self, consumer: Object) -> bool:
        """A group that has a claim keeps it, whether or not it has pods."""
        uid = str(consumer.get("uid"))
        return consumer.get("resource") != "pods" or self._state.placed(uid) is not None or self._waits(uid)

    def _held(self, node: Node) -> Iterator[tuple[DeviceID, Object]]:
        """The devices of the node that are in use, with the claims that use them."""
        state = self._state
        view = state.inventory.judged_view(node.document)
        for device in view.devices if view is not None else ():
            usage = state.inventory.usage.devices.get(device.id)
            for key in usage.claims() if usage is not None else ():
                claim = state.claims.get(key)
                self.passed_over = self.passed_over or state.claims.assumed(key)
                if claim is not None:
                    yield device.id, claim


def _is_resolvable(status: Status | None) -> bool:
    return status is None or status.resolvable


def _importance(pod: Pod) -> tuple[int, str]:
    """In ascending order the most important first: by priority, then who has been running longest."""
    return -pod.priority, _start(pod)


def _start(pod: Pod) -> str:
    return str(status_of(pod.document).get("startTime") or pod.created)


def _latest_start(victims: Iterable[Pod]) -> tuple[int, ...]:
    """Of equally cheap victims those that started last: ordered by the digits of the earliest of them, falling."""
    found = list(victims)
    if not found:
        return ()
    highest = max(victim.priority for victim in found)
    earliest = min(_start(victim) for victim in found if victim.priority == highest)
    return tuple(-ord(letter) for letter in earliest)
