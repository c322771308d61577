"""Preemption: which pods to remove so that another finds its place, for resources, for ports and for devices.

On each node that comes into question all pods of lower priority are taken away in thought, with the devices that only
they use, also those that sit on other nodes but hold devices this node sees. If the pod then fits, as many as possible
are let back, the most important first; the rest are the victims, those whose removal violates a PodDisruptionBudget
last. The node with the cheapest victims wins. Every step is undone before the next node is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from dray.allocation.devices import DeviceID
from dray.api import label_selectors
from dray.api.objects import Key, Object, is_deleting, key_of, status_of
from dray.api.resource_claims import allocation_of, reserved_for
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.state import State
from dray.scheduling.eviction.removals import removals_for
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.making_room import making_room
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.model.status import Status
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.plugins.dynamic_resources import UNDECIDED, all_devices
from dray.scheduling.plugins.node_resources_fit import fits_without
from dray.scheduling.quota.priority_removals import Unit
from dray.scheduling.quota.queue_policy import Removals

_FEWEST_NODES: Final = 100
_RULE: Final = "removals"
# So that one more victim always counts for more than none, whatever its priority.
_OFFSET: Final = 2**31


class DisruptionBudgets:
    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, Object]] = {}
        """By namespace and name."""

    def put(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.setdefault(namespace, {})[name] = budget

    def remove(self, budget: Object) -> None:
        namespace, name = key_of(budget)
        self._budgets.get(namespace, {}).pop(name, None)

    def split(self, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Those whose removal, in this order, violates a budget, and the others."""
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
    # A pod whose disruption was granted already is counted there.
    if pod.key[1] in (status_of(budget).get("disruptedPods") or {}):
        return False
    return selector is not None and label_selectors.from_object(selector)(pod.labels)


class PreemptionTrial:
    """`own` are the claims of the pod that wants the place: what they hold it keeps, whoever else uses them."""

    def __init__(self, state: State, own: set[Key], *, for_devices: bool) -> None:
        self._state = state
        self._own = own
        self._for_devices = for_devices
        self._looks = state.looks
        self._removed: dict[str, tuple[Pod, Node]] = {}
        self._released: dict[Key, list[Object]] = {}
        self._gone: set[str] = set()
        self._orphans: list[Object] = []

    def remove(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            node = self._state.node_of(pod)
            assert node is not None
            self._removed[pod.uid] = (pod, node)
            node.remove(pod)
            self._state.affinity.remove(pod, node)
            for claim in self._claims_of(pod):
                self._settle(claim)

    def node_of(self, pod: Pod) -> Node:
        """Where a pod was that is removed."""
        return self._removed[pod.uid][1]

    def release(self, claims: Iterable[Object]) -> None:
        """Whoever used them is gone."""
        for claim in claims:
            self._gone.update(consumers(claim))
            self._settle(claim)
            self._orphans.append(claim)

    def restore(self, pod: Pod) -> None:
        _, node = self._removed.pop(pod.uid)
        node.add(pod)
        if self._state.looks != self._looks:
            # Somebody keeps what the node was without the pod.
            self._state.touched.note(node.number)
        self._state.affinity.add(pod, node)
        for claim in self._claims_of(pod):
            self._settle(claim)

    def _claims_of(self, pod: Pod) -> list[Object]:
        return self._state.claims.used_by(pod.uid) if self._for_devices else []

    def undo(self) -> None:
        for pod, _ in list(self._removed.values()):
            self.restore(pod)
        self._gone.clear()
        for claim in self._orphans:
            self._settle(claim)

    def _settle(self, claim: Object) -> None:
        """A claim's devices are free when nobody is left who uses it."""
        inventory, key = self._state.inventory, key_of(claim)
        if key in self._own:
            return
        if all(uid in self._removed or uid in self._gone for uid in consumers(claim)):
            results = inventory.usage.claims.get(key)
            if results is not None:
                self._released[key] = results
                inventory.follow(inventory.usage.release(key))
        elif key in self._released:
            inventory.follow(inventory.usage.hold(key, self._released.pop(key)))


def consumers(claim: Object) -> list[str]:
    """The uids of those it is reserved for."""
    return [str(each.get("uid")) for each in reserved_for(claim)]


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
        if self.rule(cycle).hopeless:
            return None
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
        return min(found, key=lambda each: (*each.cost(), *_lateststart_of(each.preemption.victims))).preemption

    def may_help(self, cycle: Cycle, node: Node, status: Status) -> bool:
        """Whether there is a point in trying the pod again, as far as can be told cheaply: `status` is what the node
        says now, and pods could go that may be removed for its sake."""
        pod = cycle.pod
        if not status.resolvable:
            return False
        rule, demand = self.rule(cycle), cycle.claims.demand
        away = self._away(node) if demand and self._state.inventory.is_spread else []
        removable = [each for each in (*node.pods.values(), *away) if rule.may_go(each)]
        lower = [each for each in removable if self._state.bound(each)]
        self.passed_over = self.passed_over or len(lower) < len(removable)
        lower = lower or making_room(node.pods.values(), pod, cycle.now)
        here = [each for each in lower if each.uid in node.pods]
        return bool(lower) and fits_without(pod.requirements, node, here, demand.served(node))

    def rule(self, cycle: Cycle) -> Removals:
        """Who may be removed for the sake of the pod."""
        found: Removals | None = cycle.data.get(_RULE)
        if found is None:
            found = cycle.data[_RULE] = removals_for(self._state.queues, (cycle.pod,), cycle.now)
        return found

    def retry_at(self, cycle: Cycle) -> float:
        """When more pods may be removed for its sake than when somebody looked for them; infinite if never."""
        found: Removals | None = cycle.data.get(_RULE)
        return found.retry_at if found is not None else inf

    def _try(self, cycle: Cycle, node: Node) -> _Candidate | None:
        rule = self.rule(cycle)
        marked = making_room(node.pods.values(), cycle.pod, cycle.now)
        choices = self.choices(rule, self._lower(rule, node), marked)
        tried = (self._try_units(cycle, node, rule, marked, each) for each in choices)
        return next((found for found in tried if found is not None), None)

    def _try_units(
        self, cycle: Cycle, node: Node, rule: Removals, marked: Sequence[Pod], lower: Sequence[Unit]
    ) -> _Candidate | None:
        orphans = self._orphans(node) if cycle.claims.demand and self._for_devices else []
        if not lower and not orphans and not marked:
            return None
        own = {key_of(claim) for claim in cycle.claims.allocated}
        trial = self.trial(own)
        try:
            trial.release(orphans)
            trial.remove(marked)
            trial.remove(each for unit in lower for each in unit if self.is_going(each))
            placement = self._algorithm.fits(cycle, node)
            if isinstance(placement, Placement):
                return _Candidate(Preemption(node.name, (), all_devices(placement.devices)), 0)
            left = [tuple(each for each in unit if not self.is_going(each)) for unit in lower]
            staying = rule.legal(unit for unit in left if unit)
            trial.remove(each for unit in staying for each in unit)
            placement = self._algorithm.fits(cycle, node)
            if not isinstance(placement, Placement):
                return None
            spared = self._reprieve(cycle, node, trial, staying)
            placement = self._algorithm.fits(cycle, node)
            if spared is None or not isinstance(placement, Placement):
                return None
            victims, violations = spared
            devices, reclaims = all_devices(placement.devices), rule.reclaims(victims)
            return _Candidate(Preemption(node.name, tuple(victims), devices, reclaims), violations)
        finally:
            trial.undo()

    def _reprieve(
        self, cycle: Cycle, node: Node, trial: PreemptionTrial, lower: Sequence[Unit]
    ) -> tuple[list[Pod], int] | None:
        """Lets back whom it can, those whose removal would violate a budget first; None where that stays undecided."""
        units, violating = self.in_order(lower)
        victims: list[Pod] = []
        for unit in units:
            for each in unit:
                trial.restore(each)
            answer = self._algorithm.fits(cycle, node)
            if isinstance(answer, Placement):
                continue
            if answer is UNDECIDED:
                return None
            trial.remove(unit)
            victims += unit
        return victims, sum(each.uid in violating for each in victims)

    def in_order(self, lower: Iterable[Unit]) -> tuple[list[Unit], set[str]]:
        """The order in which they are let back, and the uids of those whose removal violates a budget: these first."""
        units = list(lower)
        violating = {each.uid for each in self.budgets.split(pod for unit in units for pod in unit)[0]}
        units.sort(key=lambda unit: not any(each.uid in violating for each in unit))
        return units, violating

    def trial(self, own: set[Key]) -> PreemptionTrial:
        return PreemptionTrial(self._state, own, for_devices=self._for_devices)

    def choices(self, rule: Removals, candidates: Iterable[Pod], marked: Iterable[Pod] = ()) -> list[list[Unit]]:
        """What could be removed: of elastic groups the pods that they can do without, and else groups as a whole."""
        pods = list(candidates)
        whole = self.units(rule, pods, marked)
        groups = self._state.groups
        spare: set[str] = set()
        for group in {found.key: found for each in pods if (found := groups.of(each)) is not None}.values():
            spare |= groups.spare(group)
        going = {each.uid for each in marked}
        single = [(each,) for each in pods if each.uid in spare - going]
        # Where one pod is enough for a group, each of its pods is a unit by itself, those too that it can do without.
        others = [unit for unit in whole if len(unit) == 1 and unit[0].uid not in spare]
        return [[*single, *others], whole] if single else [whole]

    def units(self, rule: Removals, candidates: Iterable[Pod], marked: Iterable[Pod] = ()) -> list[Unit]:
        """Of pods that may be removed those that could be, each with all that would have to go with it; but for the
        `marked`, which go anyway."""
        found: dict[str, Unit] = {}
        going = {each.uid for each in marked}
        for each in candidates:
            if each.uid in going:
                continue
            group = self._state.groups.disruption_unit(each)
            if group is None:
                found[each.uid] = (each,)
                continue
            unit = tuple(other for other in self._state.groups.placed(group) if other.uid not in going)
            if not all(self._may_go(rule, other) for other in unit):
                continue
            if all(map(self._state.bound, unit)):
                found[group.uid] = unit
            else:
                self.passed_over = True
        return list(found.values())

    def is_going(self, pod: Pod) -> bool:
        """Whether somebody has asked it to go."""
        return is_deleting(pod.document) or pod.uid in self._state.queues.leaving

    def _may_go(self, rule: Removals, pod: Pod) -> bool:
        return rule.may_go(pod) or self.is_going(pod)

    def _lower(self, rule: Removals, node: Node) -> Iterator[Pod]:
        """Pods on the node that may be removed, or elsewhere with devices that the node sees."""
        for each in (*node.pods.values(), *self._away(node)):
            if not self._may_go(rule, each):
                continue
            if self._state.bound(each):
                yield each
            else:
                self.passed_over = True

    def _away(self, node: Node) -> list[Pod]:
        """The pods on other nodes that use devices which the node sees too."""
        uids = {
            uid
            for device, claim in (self._held(node) if self._for_devices else ())
            if self._state.inventory.viewers(device) is None
            for uid in consumers(claim)
        }
        return [pod for uid in sorted(uids - node.pods.keys()) if (pod := self._state.placed(uid)) is not None]

    def _orphans(self, node: Node) -> list[Object]:
        """Claims with devices that the node sees, whose users are all gone: they are about to be deallocated."""
        return [claim for _, claim in self._held(node) if self._is_orphan(claim)]

    def all_orphans(self) -> list[Object]:
        """As `_orphans`, of all nodes."""
        if not self._for_devices:
            return []
        return [claim for claim in self._state.claims.all() if allocation_of(claim) and self._is_orphan(claim)]

    def _is_orphan(self, claim: Object) -> bool:
        users = reserved_for(claim)
        return bool(users) and not any(map(self._is_there, users))

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


def _lateststart_of(victims: Iterable[Pod]) -> tuple[int, ...]:
    """Of equally cheap victims those that started last: ordered by the digits of the earliest of them, falling."""
    found = list(victims)
    if not found:
        return ()
    highest = max(victim.priority for victim in found)
    earliest = min(start_of(victim) for victim in found if victim.priority == highest)
    return tuple(-ord(letter) for letter in earliest)
