"""VainEvictions: finds evictions for pods that would not get, or not keep, the place that the evictions free.

Quota and priority may contradict each other. A waiting pod of higher priority may take the place, with the quota that
the victims free or because it could not evict them itself. Then the victims take the place back, by their quota or
their priority, and the same begins again. Such evictions are left out.

Only a limited number of waiting pods is checked; `EvictionHistory` limits circles that are not found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm

# The maximum number of waiting pods that are checked for one eviction.
_MOST: Final = 16
# The maximum number of pods of a group that are placed in the trial.
_MOST_MEMBERS: Final = 64
# The number of seconds until the next attempt: no event tells when the other pods do not wait any more.
_RETRY: Final = 30.0


class VainEvictions:
    def __init__(
        self,
        state: State,
        framework: Framework,
        algorithm: SchedulingAlgorithm,
        waiting: Callable[[int], Iterable[Pod]],
    ) -> None:
        """`waiting` returns waiting pods of a higher priority; one pod may stand for all equal pods."""
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._waiting = waiting

    def left_out(self, result: EvictionResult, asking: Pod, now: float) -> EvictionResult:
        """Returns the result without evictions that would be in vain for the pod that asks."""
        if result.found is None or not self.are_vain(result.found, asking, now):
            return result
        return replace(result, found=None, quota=None, retry_at=min(result.retry_at, now + _RETRY))

    def are_vain(self, preemption: Preemption, asking: Pod, now: float) -> bool:
        """Whether a waiting pod of higher priority would take the place, and the victims would take it back."""
        queues = self._state.queues
        contentions = {queues.contention_of(victim) for victim in preemption.victims} - {None}
        if not contentions:
            return False
        highest = max(victim.priority for victim in preemption.victims)
        unseen = queues.contention_of(asking) if preemption.reclaims else None
        number = 0
        for pod in self._waiting(asking.priority):
            if not pod.preempts:
                continue
            contention = queues.contention_of(pod)
            # Pods that contend for a reclaimed place do not get it, whatever their priority.
            if contention is not None and contention == unseen:
                continue
            if highest > pod.priority or contention in contentions:
                number += 1
                if self._takes(pod, preemption, now):
                    return True
            if number >= _MOST:
                break
        return False

    def _takes(self, pod: Pod, preemption: Preemption, now: float) -> bool:
        """Whether the pod would have quota and fit there without the victims."""
        state = self._state
        victims = [victim for victim in preemption.victims if state.node_of(victim) is not None]
        with state.what_if() as trial:
            for victim in victims:
                for policy in state.queues.policies:
                    charge = policy.charges.of(victim.uid)
                    if charge is not None and charge.queue and not trial.has(("charge", victim.uid)):
                        policy.charges.set_aside(victim, trial)
            trial.evict(victims)
            nodes = {place.node for place in preemption.places.values()}
            if (group := state.groups.of(pod)) is not None and state.groups.need(group) > 1:
                return self._takes_as_group(group, nodes, victims, trial, now)
            cycle = self._algorithm.begin(pod, now, state.inventory.selectors.work)
            if self._framework.prefilter(cycle) is not None:
                return False
            return any(isinstance(self._algorithm.fits(cycle, state.nodes[name]), Placement) for name in sorted(nodes))

    def _takes_as_group(self, group: Group, nodes: set[str], victims: Iterable[Pod], trial: Trial, now: float) -> bool:
        """Whether as many pods of a group as have to start together would be placed, at least one of them there."""
        state, algorithm = self._state, self._algorithm
        need, found = state.groups.need(group), set[str]()
        pods = list(state.groups.waiting(group))[:need]
        if not need == len(pods) <= _MOST_MEMBERS:
            return False
        for victim in victims:
            # Kept answers about the node are no longer valid.
            state.touched.note(trial.node_of(victim).number)
        for pod in pods:
            cycle = algorithm.begin(pod, now, state.inventory.selectors.work)
            answer = algorithm.schedule(cycle) if self._framework.prefilter(cycle) is None else None
            if not isinstance(answer, Placement):
                return False
            algorithm.assume(answer)
            trial.record(("placed", pod.uid), partial(algorithm.take_back, answer))
            found.add(answer.node.name)
        return not nodes.isdisjoint(found)
