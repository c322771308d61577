"""PlaceSearch: the places where a group that does not fit will fit first, as running pods end.

A trial removes pods in the order of their known ends; then pods whose end is unknown, node by node, the domain and the
node with the fewest of them first. The smallest number of removed pods with which the group fits decides the places,
and the time when they are free. Pods that never end by themselves are not removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from dray.api.objects import key_of
from dray.scheduling.core.state import State
from dray.scheduling.core.what_if import Trial
from dray.scheduling.eviction.group_preemption import places_of
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model.actions import NominatedPlace
from dray.scheduling.model.group import Group
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.reservations import backfill


@dataclass(frozen=True, slots=True)
class FuturePlaces:
    places: Mapping[str, NominatedPlace]
    """The places of the pods of the group, by uid."""
    shadow: float
    """The time when the places are free; inf if that is not known."""


@dataclass(frozen=True, slots=True)
class PlaceSearchResult:
    found: FuturePlaces | None
    awaits_binding: bool
    """Whether pods were left out only because they are being bound."""


@dataclass(frozen=True, slots=True)
class _Step:
    end: float
    pods: tuple[Pod, ...]


class PlaceSearch:
    def __init__(self, state: State, preemptor: Preemptor) -> None:
        self._state = state
        self._preemptor = preemptor

    def find(
        self,
        group: Group,
        members: Sequence[Member],
        trial: GroupTrial,
        place: Callable[[], bool],
        near: Iterable[str],
        now: float,
    ) -> PlaceSearchResult:
        """Searches for places; `place` tries to place the members in the current state. Nodes in `near` are preferred.

        Nothing is placed afterwards.
        """
        steps, awaits_binding = self._steps(group, members, set(near), now)
        own = {key_of(claim) for member in members for claim in member.cycle.claims.allocated}
        with self._preemptor.what_if(own) as changes:
            removal = _Removal(changes, steps)
            if any(member.cycle.claims.demand for member in members):
                # Devices of pods that do not exist any more will be released soon.
                changes.release(self._preemptor.all_orphans())

            def fits(number: int) -> bool:
                trial.undo()
                removal.go_to(number)
                return place()

            try:
                position = backfill.earliest(len(steps), fits)
                if position is None or not fits(position):
                    return PlaceSearchResult(None, awaits_binding)
                shadow = backfill.shadow_of([step.end for step in steps], position, now)
                return PlaceSearchResult(FuturePlaces(places_of(members), shadow), awaits_binding)
            finally:
                trial.undo()

    def _steps(self, group: Group, members: Sequence[Member], near: set[str], now: float) -> tuple[list[_Step], bool]:
        """Returns the steps, and whether pods were left out because they are being bound."""
        own = {member.queued.pod.uid for member in members}
        known: list[_Step] = []
        unknown: dict[str, list[Pod]] = {}
        awaits_binding = False
        for node in self._state:
            for pod in node.pods.values():
                if pod.uid in own or pod.is_placeholder or not backfill.ends(pod):
                    continue
                if not pod.is_assigned:
                    awaits_binding = True
                    continue
                end = backfill.end_of(pod, now)
                if end < inf:
                    known.append(_Step(end, (pod,)))
                else:
                    unknown.setdefault(node.name, []).append(pod)
        known.sort(key=lambda step: (step.end, step.pods[0].key))
        last = (_Step(inf, tuple(unknown[name])) for name in self._in_order(group, unknown, near))
        return [*known, *last], awaits_binding

    def _in_order(self, group: Group, pods: Mapping[str, Sequence[Pod]], near: set[str]) -> list[str]:
        nodes = self._state.nodes
        domains = {name: _domain(group, nodes[name]) for name in pods}
        in_domain: Counter[tuple[str, ...]] = Counter()
        for name, there in pods.items():
            in_domain[domains[name]] += len(there)

        def rank(name: str) -> tuple[bool, int, tuple[str, ...], int, str]:
            domain = domains[name]
            return name not in near, in_domain[domain] if domain else 0, domain, len(pods[name]), name

        return sorted(pods, key=rank)


class _Removal:
    """Evicts the pods of the first steps in a trial, up to a number of steps that can change."""

    def __init__(self, trial: Trial, steps: Sequence[_Step]) -> None:
        self._trial = trial
        self._steps = steps
        self._number = 0

    def go_to(self, number: int) -> None:
        for step in self._steps[self._number : number]:
            self._trial.evict(step.pods)
        for step in self._steps[number : self._number]:
            for pod in step.pods:
                self._trial.restore(pod)
        self._number = number


def _domain(group: Group, node: Node) -> tuple[str, ...]:
    return tuple(node.labels.get(label, "") for label in group.topology.required)
