"""Reclaimer: whom to remove so that pods get quota of their queue that others have, as its front end decides.

Groups go as a whole. Pods that are going already are waited for: what they hold counts as free. Nobody is removed for
pods that would find no place on nodes even then. What is found is kept for them, in their queue and on the nodes, until
they are tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from dray.api.objects import key_of
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod, start_of
from dray.scheduling.placement.algorithm import Placement, SchedulingAlgorithm
from dray.scheduling.plugins.dynamic_resources import all_devices
from dray.scheduling.plugins.queue_quota import QueuedAsk
from dray.scheduling.quota.queue_charges import Charge
from dray.scheduling.quota.queue_policy import QueuePolicy, RunningUnit

# How often it is tried to place pods for which others would have to go, in one attempt.
_MOST_TRIES: Final = 24
# Nodes that are asked although nobody would leave them.
_MOST_OTHERS: Final = 8

Place = Callable[[Sequence[Pod]], bool]
"""Whether there is a place for those that ask, without the pods that are given."""


class Reclaimer:
    def __init__(
        self, state: State, framework: Framework, algorithm: SchedulingAlgorithm, preemptor: Preemptor
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._preemptor = preemptor
        self.passed_over = False
        """Whether the last time pods were passed over only because they are not bound yet."""
        self.unplaced = False
        """Whether the last time there would have been quota, and only a place was missing."""

    def for_pod(self, asked: QueuedAsk, cycle: Cycle) -> Preemption | None:
        """Where the pod would go, and who would have to go for it."""
        found: list[Placement] = []

        def place(removed: Sequence[Pod]) -> bool:
            placements = self._placements(cycle, removed)
            # Who is let back and has to go after all leaves the place that was found before.
            found[:] = placements or found
            return bool(placements)

        victims = self.find(asked, place)
        if victims is None:
            return None
        place_found = found[0]
        return Preemption(place_found.node.name, victims, all_devices(place_found.devices), reclaims=True)

    def find(self, asked: QueuedAsk, place: Place) -> tuple[Pod, ...] | None:
        """The pods to remove; None where that is of no use. Quota is kept for those that ask."""
        queues, policy, ask = self._state.queues, asked.policy, asked.ask
        self.passed_over = self.unplaced = False
        if not ask.pod.preempts or not policy.may_reclaim(ask):
            return None
        trial = QuotaTrial(self._state, policy, place)
        with self._state.trial():
            try:
                trial.forestall(policy.related(ask.queue))
                found = policy.reclaim(ask, trial)
            finally:
                trial.undo()
        # Those that quota is kept for may be removed once they have their places.
        self.passed_over = trial.passed_over or queues.is_reserved(policy, policy.related(ask.queue))
        self.unplaced = found is None and trial.unplaced
        if found is None:
            return None
        units, assets = found
        queues.reserve(ask.pod, policy, ask.queue, assets)
        victims = tuple(each for unit in units for each in unit.pods)
        queues.leave(victims)
        return victims

    def _placements(self, cycle: Cycle, removed: Iterable[Pod]) -> list[Placement]:
        """The first, if there is one."""
        trial = self._preemptor.trial({key_of(claim) for claim in cycle.claims.allocated})
        leaving = [each for each in removed if self._state.node_of(each) is not None]
        trial.remove(leaving)
        try:
            if self._framework.prefilter(cycle) is not None:
                return []
            for node in self._nodes(cycle, [trial.node_of(each) for each in leaving]):
                placement = self._algorithm.fits(cycle, node)
                if isinstance(placement, Placement):
                    return [placement]
        finally:
            trial.undo()
        return []

    def _nodes(self, cycle: Cycle, left: Iterable[Node]) -> list[Node]:
        """Those that pods would leave, the last first, and some where there is room as things are."""
        found = {node.number: node for node in reversed(list(left))}
        others = self._algorithm.feasible_nodes.of(cycle).best()
        for _, node in zip(range(_MOST_OTHERS), others, strict=False):
            found.setdefault(node.number, node)
        others.close()
        return [node for number, node in found.items() if cycle.nodes is None or number in cycle.nodes]


class QuotaTrial:
    """Units of one front end's queues, removed in thought."""

    def __init__(self, state: State, policy: QueuePolicy, place: Place) -> None:
        self._state = state
        self._policy = policy
        self._charges = policy.charges
        self._place = place
        self._tries = 0
        self._removed: dict[str, Pod] = {}
        self.passed_over = False
        self.unplaced = False

    def forestall(self, queues: Iterable[str]) -> None:
        """Those are out of sight that are going."""
        related = set(queues) if self._charges.going else ()
        for uid in self._charges.going:
            charge = self._charges.of(uid)
            if charge is not None and charge.queue in related:
                self._set_aside(charge.pod)

    def units(self, queues: Iterable[str]) -> list[RunningUnit]:
        found: dict[str, RunningUnit] = {}
        for queue in queues:
            for charge in self._charges.within(queue):
                pod = charge.pod
                if pod.uid in self._removed:
                    continue
                if not self._state.bound(pod):
                    self.passed_over = True
                    continue
                if pod.group is None:
                    found[pod.uid] = RunningUnit(
                        (pod,), queue, frozenset(charge.assets), charge.priority, start_of(pod)
                    )
                elif (unit := self._unit(charge)) is not None:
                    found[unit[0]] = unit[1]
        return list(found.values())

    def _unit(self, charge: Charge) -> tuple[str, RunningUnit] | None:
        """All that go with a pod, by a name; None where some of them cannot."""
        groups = self._state.groups
        group = groups.unit(charge.pod)
        pods = tuple(groups.placed(group)) if group is not None else (charge.pod,)
        if any(each.uid in self._removed or not self._state.bound(each) for each in pods):
            return None
        charges = [each for pod in pods if (each := self._charges.of(pod.uid)) is not None]
        unit = RunningUnit(
            pods,
            charge.queue,
            frozenset().union(*(each.assets for each in charges)),
            max(map(self._policy.priority, pods)),
            min(map(start_of, pods)),
        )
        return (group.uid if group is not None else charge.pod.uid), unit

    def is_placeable(self) -> bool:
        self._tries += 1
        found = self._tries <= _MOST_TRIES and self._place(list(self._removed.values()))
        self.unplaced = self.unplaced or not found
        return found

    def remove(self, unit: RunningUnit) -> None:
        for each in unit.pods:
            self._set_aside(each)

    def restore(self, unit: RunningUnit) -> None:
        for each in unit.pods:
            self._take_in(each)

    def undo(self) -> None:
        for pod in list(self._removed.values()):
            self._take_in(pod)

    def _set_aside(self, pod: Pod) -> None:
        if pod.uid not in self._removed:
            self._removed[pod.uid] = pod
            self._charges.set_aside(pod)

    def _take_in(self, pod: Pod) -> None:
        if self._removed.pop(pod.uid, None) is not None:
            self._charges.take_in(pod)
