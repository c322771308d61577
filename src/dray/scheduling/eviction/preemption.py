"""Preemption: the pods to evict so that another pod fits on a node, for resources, ports and devices.

On each node that may help, a trial evicts all pods that may be evicted, with the devices that only they use. This
includes pods on other nodes that hold devices which this node reaches. If the pod then fits, as many pods as possible
are restored, the most important first. The rest are the victims; pods whose eviction violates a PodDisruptionBudget are
restored first. The node with the cheapest victims wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from dray.api import label_selectors
from dray.api.objects import Key, Object, key_of, status_of
from dray.api.resource_claims import allocation_of, reserved_for
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.candidates import Candidates, removals_for, reprieve
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.eviction.vain_evictions import VainEvictions
from dray.scheduling.model.actions import NominatedPlace, Preemption
from dray.scheduling.model.making_room import making_room
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.model.status import Status
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.plugins.dynamic_resources import UNDECIDED, all_devices
from dray.scheduling.plugins.node_resources_fit import fits_without
from dray.scheduling.quota.defaults import Unit
from dray.scheduling.quota.queue_policy import Removals

_FEWEST_NODES: Final = 100
# Nodes that are looked at, the cheapest first, until the evictions on one are not in vain.
_MOST_CHECKED: Final = 8
_RULE: Final = "removals"
_HINT_RULE: Final = "removals without trials"
# Makes one more victim always more expensive than none, whatever its priority.
_OFFSET: Final = 2**31


class Help(NamedTuple):
    """Whether a change on a node may help a pod that was refused."""

    helps: bool
    awaits_binding: bool = False
    """Whether pods there may be evicted as soon as they are bound."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    preemption: Preemption
    violations: int

    def cost(self) -> tuple[int, int, int, int]:
        priorities = [victim.priority for victim in self.preemption.victims]
        total = sum(priority + _OFFSET for priority in priorities)
        return self.violations, max(priorities, default=-_OFFSET), total, len(priorities)


class Preemptor:
    """`waits` tells whether a pod that is on no node still exists.

    Unless `for_devices`, pods are evicted for resources and ports only: their devices stay in use.
    """

    def __init__(
        self,
        state: State,
        algorithm: SchedulingAlgorithm,
        vain: VainEvictions,
        waits: Callable[[str], bool] = lambda _: False,
        *,
        for_devices: bool = True,
    ) -> None:
        self._state = state
        self._algorithm = algorithm
        self.vain = vain
        self._waits = waits
        self._for_devices = for_devices
        self.budgets = DisruptionBudgets()

    def find(self, cycle: Cycle) -> EvictionResult:
        """Returns the node with the cheapest victims for the pod."""
        rule = self.rule(cycle)
        if rule.hopeless:
            return EvictionResult(retry_at=rule.retry_at)
        candidates = self.candidates(rule)
        found = self._on_nodes(cycle, candidates)
        found.sort(key=lambda candidate: (*candidate.cost(), *_latest_start(candidate.preemption.victims)))
        result = EvictionResult(None, candidates.awaits_binding, retry_at=rule.retry_at)
        for candidate in found[:_MOST_CHECKED]:
            result = self.vain.left_out(replace(result, found=candidate.preemption), cycle.pod, cycle.now)
            if result.found is not None:
                break
        return result

    def _on_nodes(self, cycle: Cycle, candidates: Candidates) -> list[_Candidate]:
        """Tries nodes until enough of them are found, or one where no pod has to be evicted."""
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
                candidate = self._try(cycle, node, candidates)
            except Exception as error:
                state.report(f"preemption on node {node.name}", error)
                continue
            if candidate is not None:
                found.append(candidate)
                if not candidate.preemption.victims or len(found) >= most:
                    break
        return found

    def may_help(self, cycle: Cycle, node: Node, status: Status) -> Help:
        """Returns whether it may help to try the pod again; a cheap check. `status` is the node's current rejection."""
        pod = cycle.pod
        if not status.resolvable:
            return Help(False)
        rule, demand = self.rule(cycle, in_trials=False), cycle.claims.demand
        candidates = self.candidates(rule)
        away = candidates.away(node) if demand and self._state.inventory.is_spread else []
        removable = [other for other in (*node.pods.values(), *away) if rule.is_evictable(other)]
        lower = [other for other in removable if other.is_assigned]
        awaits_binding = candidates.awaits_binding or len(lower) < len(removable)
        lower = lower or making_room(node.pods.values(), pod, cycle.now)
        here = [other for other in lower if other.uid in node.pods]
        helps = bool(lower) and fits_without(pod.requirements, node, here, demand.served(node))
        return Help(helps, awaits_binding)

    def rule(self, cycle: Cycle, *, in_trials: bool = True) -> Removals:
        """Returns the rule by which pods may be evicted for the pod, in trials or for hints."""
        key = _RULE if in_trials else _HINT_RULE
        found: Removals | None = cycle.data.get(key)
        if found is None:
            found = cycle.data[key] = removals_for(self._state, (cycle.pod,), cycle.now, in_trials=in_trials)
        return found

    def candidates(self, rule: Removals) -> Candidates:
        return Candidates(self._state, rule, for_devices=self._for_devices)

    def _try(self, cycle: Cycle, node: Node, candidates: Candidates) -> _Candidate | None:
        marked = making_room(node.pods.values(), cycle.pod, cycle.now)
        choices = candidates.choices(candidates.near(node), marked)
        tried = (self._try_units(cycle, node, candidates, marked, units) for units in choices)
        return next((found for found in tried if found is not None), None)

    def _try_units(
        self, cycle: Cycle, node: Node, candidates: Candidates, marked: Sequence[Pod], units: Sequence[Unit]
    ) -> _Candidate | None:
        orphans = self._orphans(node, candidates) if cycle.claims.demand and self._for_devices else []
        if not units and not orphans and not marked:
            return None
        rule, is_leaving = candidates.rule, candidates.is_leaving
        with self.what_if({key_of(claim) for claim in cycle.claims.allocated}) as trial:
            trial.release(orphans)
            trial.evict(marked)
            trial.evict(pod for unit in units for pod in unit if is_leaving(pod))
            placement = self._algorithm.fits(cycle, node)
            if isinstance(placement, Placement):
                return _Candidate(_preemption(cycle.pod, placement), 0)
            left = [tuple(pod for pod in unit if not is_leaving(pod)) for unit in units]
            evicted = rule.allowed(unit for unit in left if unit)
            trial.evict(pod for unit in evicted for pod in unit)
            if not isinstance(self._algorithm.fits(cycle, node), Placement):
                return None
            spared = self._reprieve(cycle, node, trial, evicted)
            placement = self._algorithm.fits(cycle, node)
            if spared is None or not isinstance(placement, Placement):
                return None
            victims, violations = spared
            return _Candidate(_preemption(cycle.pod, placement, victims, reclaims=rule.reclaims(victims)), violations)

    def _reprieve(
        self, cycle: Cycle, node: Node, trial: Trial, evicted: Sequence[Unit]
    ) -> tuple[list[Pod], int] | None:
        """Restores as many units as possible and returns the victims, with the number of violated budgets.

        Returns None if a search for devices stays undecided.
        """
        units, violating = self.in_order(evicted)
        is_undecided = False

        def fits(_: Unit) -> bool:
            nonlocal is_undecided
            answer = self._algorithm.fits(cycle, node)
            is_undecided = is_undecided or answer is UNDECIDED
            return isinstance(answer, Placement)

        victims = reprieve(self._state.groups, units, trial, fits)
        return None if is_undecided else (victims, sum(pod.uid in violating for pod in victims))

    def in_order(self, evicted: Iterable[Unit]) -> tuple[list[Unit], set[str]]:
        """Returns the order in which units are restored, and the uids of pods whose eviction violates a budget.

        Units with such pods come first.
        """
        units = list(evicted)
        violating = {pod.uid for pod in self.budgets.split(pod for unit in units for pod in unit)[0]}
        units.sort(key=lambda unit: not any(pod.uid in violating for pod in unit))
        return units, violating

    def what_if(self, own: set[Key]) -> AbstractContextManager[Trial]:
        return self._state.what_if(own, for_devices=self._for_devices)

    def _orphans(self, node: Node, candidates: Candidates) -> list[Object]:
        """Returns claims with devices that the node reaches whose consumers do not exist: these will be deallocated."""
        return [claim for _, claim in candidates.held(node) if self._is_orphan(claim)]

    def all_orphans(self) -> list[Object]:
        """Returns allocated claims anywhere whose consumers no longer exist."""
        if not self._for_devices:
            return []
        return [claim for claim in self._state.claims.all() if allocation_of(claim) and self._is_orphan(claim)]

    def _is_orphan(self, claim: Object) -> bool:
        users = reserved_for(claim)
        return bool(users) and not any(map(self._exists, users))

    def _exists(self, consumer: Object) -> bool:
        """Whether a consumer exists. A group that is a consumer always counts, whether or not it has pods."""
        uid = str(consumer.get("uid"))
        return consumer.get("resource") != "pods" or self._state.placed(uid) is not None or self._waits(uid)


def _preemption(pod: Pod, placement: Placement, victims: Iterable[Pod] = (), *, reclaims: bool = False) -> Preemption:
    return Preemption(tuple(victims), {pod.uid: place_of(placement)}, reclaims)


def place_of(placement: Placement) -> NominatedPlace:
    return NominatedPlace(placement.node.name, all_devices(placement.devices))


def _is_resolvable(status: Status | None) -> bool:
    return status is None or status.resolvable


def _latest_start(victims: Iterable[Pod]) -> tuple[int, ...]:
    """Returns a sort key for equally cheap victims: those whose most important pod started last come first."""
    found = list(victims)
    if not found:
        return ()
    highest = max(victim.priority for victim in found)
    earliest = min(start_of(victim) for victim in found if victim.priority == highest)
    return tuple(-ord(letter) for letter in earliest)


class DisruptionBudgets:
    """Tells which evictions violate a PodDisruptionBudget."""

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Object]] = {}
        """The PodDisruptionBudgets by namespace and name."""

    def put(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.setdefault(namespace, {})[name] = budget

    def remove(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.get(namespace, {}).pop(name, None)

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Returns the pods whose eviction, in this order, violates a budget, and the others."""
        left: dict[Key, int] = {}
        violating: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            violates = False
            for name, budget in self._budgets.get(pod.key[0], {}).items():
                if not _covers(budget, pod):
                    continue
                key = (pod.key[0], name)
                left.setdefault(key, int(status_of(budget).get("disruptionsAllowed") or 0))
                left[key] -= 1
                violates = violates or left[key] < 0
            (violating if violates else others).append(pod)
        return violating, others


def _covers(budget: Object, pod: Pod) -> bool:
    selector = budget["spec"].get("selector")
    # The budget counts a pod already whose disruption was granted.
    if pod.key[1] in (status_of(budget).get("disruptedPods") or {}):
        return False
    return selector is not None and label_selectors.from_object(selector)(pod.labels)
