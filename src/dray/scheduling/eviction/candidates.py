"""Candidates: the running pods that may be evicted under one rule, alone or as whole groups.

A pod that is being bound cannot be evicted yet. If such a pod was left out, `awaits_binding` says so: the search may
find more once the pod is bound. The rule is that of the queue system, or by priority (`removals_for`). `reprieve`
restores as many as possible of the pods that were evicted in a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from dray.allocation.devices import DeviceID
from dray.api.objects import Object, is_deleting
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial, consumers
from dray.scheduling.groups.groups import Groups
from dray.scheduling.model.group import Group, GroupKey
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.quota.defaults import PriorityRemovals, Unit
from dray.scheduling.quota.pod_costs import PodCosts
from dray.scheduling.quota.queue_policy import Ask, Removals


class Candidates:
    """The pods that may be evicted. Pods elsewhere that use devices of a node count for it only if `for_devices`."""

    def __init__(self, state: State, rule: Removals, *, for_devices: bool) -> None:
        self.rule = rule
        self.awaits_binding = False
        self._state = state
        self._for_devices = for_devices

    def near(self, node: Node) -> Iterator[Pod]:
        """Yields the pods on a node that may be evicted, and pods on other nodes with devices that the node reaches."""
        return self._bound((*node.pods.values(), *self.away(node)))

    def everywhere(self) -> Iterator[Pod]:
        for node in list(self._state.nodes.values()):
            if node.pods:
                yield from self._bound(list(node.pods.values()))

    def _bound(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        for pod in pods:
            if not self._is_evictable(pod):
                continue
            if pod.is_assigned:
                yield pod
            else:
                self.awaits_binding = True

    def away(self, node: Node) -> list[Pod]:
        """Returns the pods on other nodes that use devices which the node reaches too."""
        uids = {
            uid
            for device, claim in (self.held(node) if self._for_devices else ())
            if self._state.inventory.viewers(device) is None
            for uid in consumers(claim)
        }
        return [pod for uid in sorted(uids - node.pods.keys()) if (pod := self._state.placed(uid)) is not None]

    def held(self, node: Node) -> Iterator[tuple[DeviceID, Object]]:
        """Yields the devices of the node that are in use, with the claims that use them."""
        state = self._state
        view = state.inventory.judged_view(node.document)
        for device in view.devices if view is not None else ():
            usage = state.inventory.usage.devices.get(device.id)
            for key in usage.claims() if usage is not None else ():
                claim = state.claims.get(key)
                self.awaits_binding = self.awaits_binding or state.claims.assumed(key)
                if claim is not None:
                    yield device.id, claim

    def choices(self, pods: Iterable[Pod], marked: Iterable[Pod] = ()) -> list[list[Unit]]:
        """Returns alternatives of units to evict: first only surplus pods of elastic groups, then whole groups.

        Pods that are `marked` are evicted anyway and left out.
        """
        found = list(pods)
        whole = self._units(found, marked)
        groups = self._state.groups
        surplus: set[str] = set()
        for group in {group.key: group for pod in found if (group := groups.of(pod)) is not None}.values():
            surplus |= groups.surplus(group)
        leaving = {pod.uid for pod in marked}
        single = [(pod,) for pod in found if pod.uid in surplus - leaving]
        # If a group needs only one pod, each of its pods is a unit by itself, including surplus pods.
        others = [unit for unit in whole if len(unit) == 1 and unit[0].uid not in surplus]
        return [[*single, *others], whole] if single else [whole]

    def _units(self, pods: Iterable[Pod], marked: Iterable[Pod]) -> list[Unit]:
        """Returns the units of the pods: each pod with all pods that are evicted together with it."""
        found: dict[str, Unit] = {}
        leaving = {pod.uid for pod in marked}
        for pod in pods:
            if pod.uid in leaving:
                continue
            group = self._state.groups.disruption_unit(pod)
            if group is None:
                found[pod.uid] = (pod,)
                continue
            unit = tuple(other for other in self._state.groups.placed(group) if other.uid not in leaving)
            if not all(map(self._is_evictable, unit)):
                continue
            if all(pod.is_assigned for pod in unit):
                found[group.uid] = unit
            else:
                self.awaits_binding = True
        return list(found.values())

    def is_leaving(self, pod: Pod) -> bool:
        """Whether the pod is being deleted, or was chosen for eviction before."""
        state = self._state
        return is_deleting(pod.document) or pod.uid in state.queues.evicted or state.groups.is_evicted(pod)

    def _is_evictable(self, pod: Pod) -> bool:
        return self.rule.is_evictable(pod) or self.is_leaving(pod)


def removals_for(state: State, pods: Sequence[Pod], now: float, *, in_trials: bool = True) -> Removals:
    """Returns the rule for one pod, or for pods of a group that start together.

    A rule that is not used `in_trials` computes the wanted amounts only if it needs them. In a trial they would differ.
    """
    rule, spared = _rule(state, pods, now, in_trials=in_trials), SparedPods(state, pods[0], now)
    return SparingRemovals(rule, spared) if spared else rule


def _rule(state: State, pods: Sequence[Pod], now: float, *, in_trials: bool) -> Removals:
    member = state.queues.member(pods[0])
    if member is not None:
        policy, queue, priority = member
        costs = policy.charges.costs
        wanted = costs.wanted(queue, pods) if in_trials else _LazyAmounts(costs, queue, pods)
        return policy.evictions(Ask(tuple(pods), queue, wanted, priority, now)).removals()
    return PriorityRemovals(pods[0].priority, partial(_rank, state.groups))


def _rank(groups: Groups, pod: Pod) -> int:
    """Returns 2 if the pod is evicted together with a group of groups, 1 if with a group, 0 if alone."""
    group = groups.disruption_unit(pod)
    return 0 if group is None else 2 if groups.forest.children(group) else 1


class _LazyAmounts(Mapping[str, int]):
    """The amounts that pods want, computed when they are first read.

    Most queueing hints need only priorities: for 3,000 pods in 30 queues amounts are computed 8,200 times, not 52,000.
    """

    def __init__(self, costs: PodCosts, queue: str, pods: Sequence[Pod]) -> None:
        self._costs = costs
        self._queue = queue
        self._pods = pods

    @cached_property
    def _amounts(self) -> Mapping[str, int]:
        return self._costs.wanted(self._queue, self._pods)

    def __getitem__(self, name: str) -> int:
        return self._amounts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def __len__(self) -> int:
        return len(self._amounts)


class SparedPods:
    """The pods that are not evicted for a pod, whatever the rule of its queue says: pods of its own group, and pods
    that were evicted for it too often and in a circle."""

    def __init__(self, state: State, asking: Pod, now: float) -> None:
        self._evictions = state.evictions
        self._groups = state.groups
        self._asking = asking
        self._now = now
        self._root = self._root_of(asking)

    def __bool__(self) -> bool:
        return self._root is not None or bool(self._evictions)

    def has(self, pod: Pod) -> bool:
        if self._root is not None and self._root_of(pod) == self._root:
            return True
        return bool(self._evictions) and self._evictions.spares(self._asking, pod, self._now)

    @property
    def retry_at(self) -> float:
        return self._evictions.retry_at(self._asking, self._now)

    def _root_of(self, pod: Pod) -> GroupKey | None:
        """Returns the root of the tree of groups that the pod belongs to."""
        group = self._groups.of(pod) if pod.group is not None else None
        root = self._groups.root(group) if group is not None else None
        return root.key if isinstance(root, Group) else pod.group


class SparingRemovals:
    """A rule that spares some pods."""

    def __init__(self, rule: Removals, spared: SparedPods) -> None:
        self._rule = rule
        self._spared = spared
        self.hopeless = rule.hopeless

    @property
    def retry_at(self) -> float:
        return min(self._rule.retry_at, self._spared.retry_at)

    def is_evictable(self, pod: Pod) -> bool:
        return self._rule.is_evictable(pod) and not self._spared.has(pod)

    def allowed(self, units: Iterable[Unit]) -> list[Unit]:
        return self._rule.allowed(units)

    def reclaims(self, victims: Iterable[Pod]) -> bool:
        return self._rule.reclaims(victims)


def reprieve(groups: Groups, units: Iterable[Unit], trial: Trial, fits: Callable[[Unit], bool]) -> list[Pod]:
    """Restores units in their order; returns the pods of the units that have to be evicted. `fits` tells whether the
    pods that ask still fit after a unit was restored. If a group that starts together would be left with too few pods,
    its other pods are evicted too, since they are useless."""
    victims: list[Pod] = []
    restored: list[Unit] = []
    torn = _TornGroups(groups)
    for unit in units:
        if torn.have(unit):
            victims += unit
            continue
        for pod in unit:
            trial.restore(pod)
        if fits(unit):
            restored.append(unit)
            continue
        trial.evict(unit)
        torn.add(unit)
        victims += unit
    for unit in filter(torn.have, restored):
        trial.evict(unit)
        victims += unit
    return victims


class _TornGroups:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._victims: dict[GroupKey, list[Pod]] = {}
        self._torn: set[GroupKey] = set()

    def add(self, victims: Unit) -> None:
        """Notes that the pods are evicted."""
        group = self._groups.disruption_unit(victims[0])
        if group is not None:
            known = self._victims.setdefault(group.key, [])
            known += victims
            if self._groups.is_started(group) and not self._groups.is_started_without(group, known):
                self._torn.add(group.key)

    def have(self, unit: Unit) -> bool:
        """Whether the unit belongs to a group that has too few pods after the evictions."""
        group = self._groups.disruption_unit(unit[0]) if self._torn else None
        return group is not None and group.key in self._torn
