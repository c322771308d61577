"""GroupPlacer: pods of a tree of groups as members of kinds, how many of a kind nodes have room for, and the search.

A kind is made of pods that are interchangeable. Where not all can be placed that have to be, it says what the next pod
lacks in the domain where most of them can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from dray.allocation import Work, WorkExhausted
from dray.api.objects import Key, Object, key_of
from dray.scheduling.core.cycle import Cycle, PodClaims
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.queue import QueuedPod
from dray.scheduling.core.state import State
from dray.scheduling.model.group import Group, GroupKey, Path
from dray.scheduling.model.node import Node
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import UNSURE, Diagnosis, GroupDiagnosis, Status
from dray.scheduling.model.topology import domains_of, taken_values
from dray.scheduling.placement.algorithm import SchedulingAlgorithm
from dray.scheduling.placement.group_branches import Branch, branch_of
from dray.scheduling.placement.group_search import Kind
from dray.scheduling.placement.group_tree_search import Lack, TreeSearch
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.plugins.node_resources_fit import room
from dray.scheduling.plugins.queue_quota import QueuedAsk, QueueQuota

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
        self._state.claims.shared = shared
        try:
            with self._state.what_if() as changes:
                trial = GroupTrial(self._state, self._framework, self._algorithm, self._devices, work, changes)
                yield trial, members
                changes.keep()
            if trial.placed():
                self._state.pods_revision += 1
        finally:
            self._state.claims.shared = _NO_CLAIMS

    def _member(self, queued: QueuedPod, cycle: Cycle, shared: frozenset[Key]) -> Member:
        social = any(plugin.name != QueueQuota.name for plugin in self._framework.own_filters(cycle))
        own = [key_of(claim) for claim in cycle.claims.unallocated if key_of(claim) in shared]
        kind: Hashable = (
            cycle.pod.requirements,
            cycle.claims.demand,
            tuple(own),
            tuple(map(key_of, cycle.claims.allocated)),
            tuple(sorted(cycle.pod.labels.items())) if social else _turn_in_queue(cycle),
        )
        return Member(queued, cycle, kind, bool(own), social)

    def place(
        self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial, *, anew: bool = False
    ) -> GroupDiagnosis | None:
        """None where a place was found for enough of them, and of all groups below this one.

        With `anew` every node is asked, since pods were taken away in thought.
        """
        by_group: dict[GroupKey, list[Member]] = {}
        for each in members:
            by_group.setdefault(each.queued.pod.group or group.key, []).append(each)
        root = branch_of(group, by_group, self._state)
        nodes = {node.number: node for node in self._state}
        if (status := self._short_of(group) or _misplaced(root, nodes)) is not None:
            return GroupDiagnosis(need, status=status, error=status.error)
        kind_of = partial(self._kind, anew=anew)
        for tier in self._tiers(members):
            inside = {number: nodes[number] for number in nodes if number in tier}
            if TreeSearch(trial, kind_of, inside, self._parts).run(root):
                return None
        search = TreeSearch(trial, kind_of, nodes, self._parts)
        if search.run(root):
            return None
        if trial.error is not None:
            return GroupDiagnosis(need, status=trial.error, error=True)
        return self._diagnosis(search, root, need, trial)

    def _diagnosis(self, search: TreeSearch, root: Branch, need: int, trial: GroupTrial) -> GroupDiagnosis:
        found = GroupDiagnosis(need, min(search.best, need - 1), undecided=search.undecided)
        if search.best > _MOST_EXPLAINED:
            best = search.best_domain(root, search.nodes) if root.topology.required else None
            return replace(found, domains=best[1], domain=best[0].title) if best is not None else found
        try:
            lack = search.lack(root, search.nodes)
            if lack is None:
                return found
            following = self._following(lack)
            return replace(
                found,
                best=min(max(search.best, trial.placed()), need - 1),
                domains=lack.domains if lack.domain.path else 0,
                domain=lack.domain.title,
                part=lack.branch.group.key.title if root.children else "",
                following=following,
            )
        except WorkExhausted:
            return found
        finally:
            trial.undo()

    def _tiers(self, members: Sequence[Member]) -> Iterable[AbstractSet[int]]:
        """Nodes of one rank, then those of few, where pods name a class of nodes: the slowest holds up all others."""
        classes = self._state.node_classes
        ranked = (each.cycle.pod.requirements for each in members if classes.known)
        requirements = next((each for each in ranked if classes.concern(each)), None)
        return classes.tiers(requirements, self._state) if requirements is not None else ()

    def _parts(self, branch: Branch, nodes: Mapping[int, Node]) -> Sequence[Mapping[int, Node]]:
        """Pods of one group have the same flavors of their queue, those of them that run already included."""
        members = [member for leaf in branch.leaves() for member in leaf.members]
        asked = members[0].cycle.data.get(QueueQuota.name) if members else None
        if not isinstance(asked, QueuedAsk) or asked.is_uniform:
            return (nodes,)
        if len({leaf.group.key for leaf in branch.leaves()}) > 1:
            return (nodes,)
        policy, queue = asked.policy, asked.ask.queue
        pods = tuple(each.queued.pod for each in members)
        ask = replace(asked.ask, pods=pods, wanted=policy.charges.wanted(queue, pods))
        choice = policy.node_flavors.choice
        found: dict[Hashable, dict[int, Node]] = {}
        for number, node in nodes.items():
            found.setdefault(choice(ask, node).flavors, {})[number] = node
        taken = {choice(ask, node).flavors for node in branch.taken}
        parts = [part for flavors, part in found.items() if not taken or flavors in taken]
        return sorted(parts, key=lambda part: -choice(ask, next(iter(part.values()))).rank)

    def _short_of(self, group: Group) -> Status | None:
        """What all nodes together have too little of, for a group none of which runs."""
        if not group.min_resources or self._state.groups.members(group.key).started:
            return None
        for name, wanted in group.min_resources.items():
            left = sum(max(0, node.allocatable.get(name, 0) - node.requested.get(name, 0)) for node in self._state)
            if left < wanted:
                return Status.of(GangScheduling.name, Code.MIN_RESOURCES, name, str(wanted), str(left))
        return None

    def _kind(self, members: list[Member], numbers: Iterable[int], *, anew: bool) -> Kind:
        """Where pods of the kind could be, of these nodes, and how many at most."""
        state, cycle = self._state, members[0].cycle
        if members[0].shares:
            # Another group may have got what they share.
            self._framework.prefilter(cycle)
        feasible = self._algorithm.feasible_nodes.of(cycle)
        able = self._fitting(cycle) if anew else feasible.numbers
        if cycle.nodes is not None:
            able = able & cycle.nodes
        requirements, demand = cycle.pod.requirements, cycle.claims.demand
        # What they share they need once.
        own = state.demands.of(self._own(cycle), demand.extended, cycle.pod.document, requirements)
        rooms, scores = {}, {}
        for number in numbers:
            node = state.numbered[number]
            if number not in able or node is None:
                continue
            here = room(requirements, node, demand.served(node), _ANY_NUMBER)
            here = own.room(state.inventory, state.resources, node, here) if here and own else here
            if here:
                rooms[number] = here
                scores[number] = feasible.score(node)
        # What devices cost a queue may depend on the node: alternatives, or all devices of a class.
        by_devices = bool(demand) and (state.inventory.is_spread or QueueQuota.name in cycle.data)
        coupled = members[0].social or members[0].shares or by_devices
        return Kind(members, rooms, scores, coupled)

    def _fitting(self, cycle: Cycle) -> set[int]:
        """The nodes that may take a pod, as they are in thought."""
        filters = self._framework.kept_filters(cycle)
        answers = ((node.number, self._framework.quick_filter(filters, cycle, node)) for node in self._state)
        return {number for number, status in answers if status is None or status is UNSURE}

    def _own(self, cycle: Cycle) -> list[Object]:
        shared = self._state.claims.shared
        return [claim for claim in cycle.claims.unallocated if key_of(claim) not in shared]

    def _following(self, lack: Lack) -> Diagnosis | None:
        """Why there is no place for one more, with as many as possible placed."""
        search = lack.search
        member = search.first_without_place(lack.kinds)
        if member is None:
            return None
        if (status := self._framework.prefilter(member.cycle)) is not None:
            return Diagnosis(len(search.nodes), status)
        return self._algorithm.diagnose(member.cycle, list(search.nodes.values()))


def _turn_in_queue(cycle: Cycle) -> Hashable:
    """Returns what the quota of a pod depends on beside its requests; nothing for a pod in no queue.

    Quota is the same on all nodes that are tried together (`_parts`), so that pods in a queue are packed like others.
    """
    asked = cycle.data.get(QueueQuota.name)
    return (asked.policy.label, asked.ask.queue, asked.ask.priority) if isinstance(asked, QueuedAsk) else ()


def _shared(claims: Iterable[PodClaims]) -> frozenset[Key]:
    """The claims that several pods use and that have no devices yet."""
    counts = Counter(key_of(claim) for each in claims for claim in each.unallocated)
    return frozenset(key for key, number in counts.items() if number > 1)


def _misplaced(root: Branch, nodes: Mapping[int, Node]) -> Status | None:
    """Why there is no domain at all that it could be in."""
    known = set[Path]()
    for branch in root.all():
        path = branch.topology.required
        if not path:
            continue
        if len(taken_values(path, branch.taken)) > 1:
            return Status.of("", Code.GANG_IN_SEVERAL_DOMAINS, branch.group.key.title, path[-1], error=True)
        if path not in known and not domains_of(path, nodes):
            return Status.of("", Code.NO_PLACEMENTS, path[-1])
        known.add(path)
    return None
