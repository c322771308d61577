"""GroupPlacer: the pods of a group as members of kinds, the domains that they could be in, and the search in each.

A kind is made of pods that are interchangeable. Where all of a group cannot be placed, it says what the next pod lacks
in the domain where most of them can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from dray.allocation import Work, WorkExhausted
from dray.api.objects import Key, Object, key_of
from dray.scheduling.algorithm import SchedulingAlgorithm
from dray.scheduling.cycle import Cycle, PodClaims
from dray.scheduling.framework import Framework
from dray.scheduling.group_model import Group
from dray.scheduling.group_search import GroupSearch, Kind
from dray.scheduling.group_trial import GroupTrial, Member
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.plugins.node_resources_fit import room
from dray.scheduling.queue import QueuedPod
from dray.scheduling.reasons import Code
from dray.scheduling.state import State
from dray.scheduling.status import UNSURE, Diagnosis, GroupDiagnosis, Status
from dray.scheduling.topology import Domain, domains_of

# More are not placed in thought only to say what the next one lacks.
_MOST_EXPLAINED: Final = 64
_ANY_NUMBER: Final = 1 << 30
_NO_CLAIMS: Final[frozenset[Key]] = frozenset()


class GroupPlacer:
    def __init__(
        self, state: State, framework: Framework, algorithm: SchedulingAlgorithm, devices: DynamicResources
    ) -> None:
        self._state = state
        self._framework = framework
        self._algorithm = algorithm
        self._devices = devices

    @contextmanager
    def trial(self, found: Sequence[tuple[QueuedPod, Cycle]], work: Work) -> Iterator[tuple[GroupTrial, list[Member]]]:
        """For pods that are past their prefilter. What is placed at the end stays so, unless there was an error."""
        shared = _shared(cycle.claims for _, cycle in found)
        members = [self._member(each, cycle, shared) for each, cycle in found]
        trial = GroupTrial(self._state, self._framework, self._algorithm, self._devices, work)
        self._state.claims.shared = shared
        try:
            with self._state.trial():
                try:
                    yield trial, members
                except BaseException:
                    trial.undo()
                    raise
        finally:
            self._state.claims.shared = _NO_CLAIMS

    def _member(self, queued: QueuedPod, cycle: Cycle, shared: frozenset[Key]) -> Member:
        social = bool(self._framework.own_filters(cycle))
        own = [key_of(claim) for claim in cycle.claims.unallocated if key_of(claim) in shared]
        kind: Hashable = (
            cycle.pod.requirements,
            cycle.claims.demand,
            tuple(own),
            tuple(map(key_of, cycle.claims.allocated)),
            tuple(sorted(cycle.pod.labels.items())) if social else (),
        )
        return Member(queued, cycle, kind, bool(own), social)

    def place(
        self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial, *, anew: bool = False
    ) -> GroupDiagnosis | None:
        """None where a place was found for enough of them, in one domain.

        With `anew` every node is asked, since pods were taken away in thought.
        """
        domains = self._short_of(group) or self._domains(group)
        if isinstance(domains, Status):
            return GroupDiagnosis(need, status=domains, error=domains.error)
        kinds = self._kinds(members, anew)
        tried: list[tuple[GroupSearch, Domain, list[Kind]]] = []
        for domain, here in _in_order(domains, kinds, len(members)):
            nodes = {number: node for number in domain.nodes if (node := self._state.numbered[number]) is not None}
            search = GroupSearch(trial, nodes)
            if search.run(here, need):
                return None
            tried.append((search, domain, here))
        search, domain, here = max(tried, key=lambda each: each[0].best)
        if trial.error is not None:
            return GroupDiagnosis(need, status=trial.error, error=True)
        return GroupDiagnosis(
            need,
            search.best,
            domains=len(domains) if group.topology else 0,
            domain=f"{group.topology}={domain.value}" if group.topology else "",
            following=self._following(search, here, trial),
            undecided=any(each.undecided for each, _, _ in tried),
        )

    def _short_of(self, group: Group) -> Status | None:
        """What all nodes together have too little of, for a group none of which runs."""
        if not group.min_resources or self._state.groups.members(group.key).started:
            return None
        for name, wanted in group.min_resources.items():
            left = sum(max(0, node.allocatable.get(name, 0) - node.requested.get(name, 0)) for node in self._state)
            if left < wanted:
                return Status.of(GangScheduling.name, Code.MIN_RESOURCES, name, str(wanted), str(left))
        return None

    def _domains(self, group: Group) -> list[Domain] | Status:
        placed = self._state.groups.members(group.key).placed.values()
        nodes = [node for pod in placed if (node := self._state.node_of(pod)) is not None]
        return domains_of(group, self._state, nodes)

    def _kinds(self, members: Sequence[Member], anew: bool) -> list[Kind]:
        by_kind: dict[Hashable, list[Member]] = {}
        for each in members:
            by_kind.setdefault(each.kind, []).append(each)
        spread = self._state.inventory.is_spread
        return [self._kind(each, spread, anew) for each in by_kind.values()]

    def _kind(self, members: list[Member], spread: bool, anew: bool) -> Kind:
        """Where pods of the kind could be, and how many at most."""
        state, cycle = self._state, members[0].cycle
        feasible = self._algorithm.feasible_nodes.of(cycle)
        numbers = self._fitting(cycle) if anew else feasible.numbers
        if cycle.nodes is not None:
            numbers = numbers & cycle.nodes
        requirements, demand = cycle.pod.requirements, cycle.claims.demand
        # What they share they need once.
        own = state.demands.of(self._own(cycle), demand.extended, cycle.pod.document, requirements)
        rooms = {}
        for number in numbers:
            node = state.numbered[number]
            assert node is not None
            here = room(requirements, node, demand.served(node), _ANY_NUMBER)
            here = own.room(state.inventory, state.resources, node, here) if here and own else here
            if here:
                rooms[number] = here
        scores = {number: feasible.score(node) for number in rooms if (node := state.numbered[number]) is not None}
        coupled = members[0].social or members[0].shares or (bool(demand) and spread)
        return Kind(members, rooms, scores, coupled)

    def _fitting(self, cycle: Cycle) -> set[int]:
        """The nodes that may take a pod, as they are in thought."""
        filters = self._framework.kept_filters(cycle)
        answers = ((node.number, self._framework.quick_filter(filters, cycle, node)) for node in self._state)
        return {number for number, status in answers if status is None or status is UNSURE}

    def _own(self, cycle: Cycle) -> list[Object]:
        shared = self._state.claims.shared
        return [claim for claim in cycle.claims.unallocated if key_of(claim) not in shared]

    def _following(self, search: GroupSearch, kinds: Sequence[Kind], trial: GroupTrial) -> Diagnosis | None:
        """Why there is no place for one more, with as many as possible placed."""
        if search.best > _MOST_EXPLAINED:
            return None
        try:
            member = search.first_without_place(kinds)
            if member is None:
                return None
            if (status := self._framework.prefilter(member.cycle)) is not None:
                return Diagnosis(len(search.nodes), status)
            return self._algorithm.diagnose(member.cycle, list(search.nodes.values()))
        except WorkExhausted:
            return None
        finally:
            trial.undo()


def _shared(claims: Iterable[PodClaims]) -> frozenset[Key]:
    """The claims that several pods use and that have no devices yet."""
    counts = Counter(key_of(claim) for each in claims for claim in each.unallocated)
    return frozenset(key for key, number in counts.items() if number > 1)


def _in_order(domains: Iterable[Domain], kinds: Sequence[Kind], wanted: int) -> list[tuple[Domain, list[Kind]]]:
    """Those first that have room for all pods, the smallest of them first; then those that have room for most."""

    def rank(each: tuple[Domain, list[Kind]]) -> tuple[int, int]:
        return -sum(kind.bound for kind in each[1]), sum(sum(kind.rooms.values()) for kind in each[1])

    return sorted(((domain, [kind.within(domain.nodes) for kind in kinds]) for domain in domains), key=rank)
