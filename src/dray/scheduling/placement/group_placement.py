"""GroupPlacer: finds nodes for the pods of a tree of groups.

Interchangeable pods form a kind, and nodes have room for a number of pods of a kind. If fewer pods fit than have to be
placed together, the diagnosis tells what the next pod lacks in the domain where most of them fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice, product
from typing import Final

from dray.allocation import Work, WorkExhausted
from dray.api.objects import Key, Object, key_of
from dray.scheduling.core.cycle import Cycle, PodClaims
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.state import State
from dray.scheduling.model.group import POD, Group, GroupKey, Path
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Requirements
from dray.scheduling.model.pod_terms import TermSelector
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
from dray.scheduling.waiting.queued_pods import QueuedPod

# If more pods than this fit, they are not placed in a trial only to explain what the next one lacks.
_MOST_EXPLAINED: Final = 64
_ANY_NUMBER: Final = 1 << 30
# The maximum number of ways to give each kind of pods of a group a flavor.
_MOST_JOINED: Final = 16


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
        """Runs a trial for pods that passed their prefilter.

        Pods that are placed at the end stay assumed, unless there was an error.
        """
        shared = _shared(cycle.claims for _, cycle in found)
        own_terms = (cycle.pod.requirements.pod_terms.anti_affinity for _, cycle in found)
        repelling = list(dict.fromkeys(term.selector for terms in own_terms for term in terms))
        members = [self._member(queued, cycle, shared, repelling) for queued, cycle in found]
        with self._state.what_if() as sharing, self._state.what_if() as changes:
            sharing.share(shared)
            trial = GroupTrial(self._state, self._framework, self._algorithm, self._devices, work, changes)
            yield trial, members
            changes.keep()

    def _member(
        self, queued: QueuedPod, cycle: Cycle, shared: frozenset[Key], repelling: Sequence[TermSelector]
    ) -> Member:
        """`repelling` selects the pods that pods of the same trial keep off their nodes by anti-affinity."""
        pod, namespaces = cycle.pod, self._state.affinity.namespaces
        depends_on_pods = any(plugin.name != QueueQuota.name for plugin in self._framework.own_filters(cycle)) or any(
            selector.includes(pod.key[0], pod.labels, False, namespaces) for selector in repelling
        )
        own = [key_of(claim) for claim in cycle.claims.unallocated if key_of(claim) in shared]
        kind: Hashable = (
            cycle.pod.requirements,
            cycle.claims.demand,
            tuple(own),
            tuple(map(key_of, cycle.claims.allocated)),
            tuple(sorted(cycle.pod.labels.items())) if depends_on_pods else _turn_in_queue(cycle),
        )
        return Member(queued, cycle, kind, bool(own), depends_on_pods)

    def place(
        self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial, *, anew: bool = False
    ) -> GroupDiagnosis | None:
        """Places enough pods of the group and of all groups below it; returns why not if that is impossible.

        With `anew` every node is filtered again, since the trial removed pods.
        """
        by_group: dict[GroupKey, list[Member]] = {}
        for member in members:
            # A pod of a group that is placed by itself is a group of its own here.
            key = None if group.key.kind == POD else member.queued.pod.group
            by_group.setdefault(key or group.key, []).append(member)
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
        diagnosis = GroupDiagnosis(need, min(search.best, need - 1), undecided=search.undecided)
        if search.best > _MOST_EXPLAINED:
            best = search.best_domain(root, search.nodes) if root.topology.required else None
            return replace(diagnosis, domains=best[1], domain=best[0].title) if best is not None else diagnosis
        try:
            lack = search.lack(root, search.nodes)
            if lack is None:
                return diagnosis
            following = self._following(lack)
            return replace(
                diagnosis,
                best=min(max(search.best, trial.placed()), need - 1),
                domains=lack.domains if lack.domain.path else 0,
                domain=lack.domain.title,
                part=lack.branch.group.key.title if root.children else "",
                following=following,
            )
        except WorkExhausted:
            return diagnosis
        finally:
            trial.undo()

    def _tiers(self, members: Sequence[Member]) -> Iterable[AbstractSet[int]]:
        """Sets of nodes to try in order, if pods name a node class: nodes of one rank, then of few ranks.

        The pods of a group run at the speed of the slowest, so equal nodes come first.
        """
        classes = self._state.node_classes
        candidates = (member.cycle.pod.requirements for member in members if classes.known)
        requirements = next((ranked for ranked in candidates if classes.concern(ranked)), None)
        return classes.tiers(requirements, self._state) if requirements is not None else ()

    def _parts(self, branch: Branch, nodes: Mapping[int, Node]) -> Sequence[Mapping[int, Node]]:
        """Splits the nodes by the flavors of the queue: all pods of a group, including running pods, use the same
        flavors.

        If that is impossible, each kind of pods uses flavors of its own.
        """
        members = [member for leaf in branch.leaves() for member in leaf.members]
        asked = members[0].cycle.data.get(QueueQuota.name) if members else None
        if not isinstance(asked, QueuedAsk) or asked.is_uniform:
            return (nodes,)
        if len({leaf.group.key for leaf in branch.leaves()}) > 1:
            return (nodes,)
        policy, queue = asked.policy, asked.ask.queue
        pods = tuple(member.queued.pod for member in members)
        ask = replace(asked.ask, pods=pods, wanted=policy.charges.costs.wanted(queue, pods))
        choice = policy.node_flavors.choice
        by_flavors: dict[Hashable, dict[int, Node]] = {}
        for number, node in nodes.items():
            by_flavors.setdefault(choice(ask, node).flavors, {})[number] = node
        taken = {choice(ask, node).flavors for node in branch.taken}
        parts = [part for flavors, part in by_flavors.items() if not taken or flavors in taken]
        parts.sort(key=lambda part: -choice(ask, next(iter(part.values()))).rank)
        kinds = dict.fromkeys(pod.requirements for pod in pods)
        return [*parts, *_joined(kinds, list(by_flavors.values()))] if len(kinds) > 1 and not taken else parts

    def _short_of(self, group: Group) -> Status | None:
        """Rejects a group that has not started if all nodes together have too little for its minResources."""
        if not group.min_resources or self._state.groups.members(group.key).started:
            return None
        for name, wanted in group.min_resources.items():
            left = sum(max(0, node.allocatable.get(name, 0) - node.requested.get(name, 0)) for node in self._state)
            if left < wanted:
                return Status.of(GangScheduling.name, Code.MIN_RESOURCES, name, str(wanted), str(left))
        return None

    def _kind(self, members: list[Member], numbers: Iterable[int], *, anew: bool) -> Kind:
        """The members as a Kind: how many of them fit on each of the nodes, by counting."""
        state, cycle = self._state, members[0].cycle
        if members[0].shares:
            # The claim that they share may have been allocated for another group.
            self._framework.prefilter(cycle)
        feasible = self._algorithm.feasible_nodes.of(cycle)
        able = self._fitting(cycle) if anew else feasible.numbers
        if cycle.nodes is not None:
            able = able & cycle.nodes
        requirements, demand = cycle.pod.requirements, cycle.claims.demand
        # Claims that they share are allocated once and not for each pod.
        own = state.demands.of(self._own(cycle), demand.extended, cycle.pod.document, requirements)
        rooms, scores, fitting = dict[int, int](), dict[int, int](), list[Node]()
        for number in numbers:
            node = state.numbered[number]
            if number not in able or node is None:
                continue
            here = room(requirements, node, demand.served(node), _ANY_NUMBER)
            here = own.room(state.inventory, state.resources, node, here) if here and own else here
            if here:
                rooms[number] = here
                scores[number] = feasible.score(node)
                fitting.append(node)
        if preferring := self._framework.preferring(cycle):
            self._framework.compare(preferring, cycle, fitting, scores)
        # The charge of a queue for devices may depend on the node (alternatives, allocation mode All).
        by_devices = bool(demand) and (state.inventory.is_spread or QueueQuota.name in cycle.data)
        coupled = members[0].depends_on_pods or members[0].shares or by_devices
        return Kind(members, rooms, scores, coupled)

    def _fitting(self, cycle: Cycle) -> set[int]:
        """The numbers of the nodes that may take the pod in the current state of the trial."""
        filters = self._framework.kept_filters(cycle)
        answers = ((node.number, self._framework.quick_filter(filters, cycle, node)) for node in self._state)
        return {number for number, status in answers if status is None or status is UNSURE}

    def _own(self, cycle: Cycle) -> list[Object]:
        """The unallocated claims of the pod that it does not share."""
        shared = self._state.claims.shared
        return [claim for claim in cycle.claims.unallocated if key_of(claim) not in shared]

    def _following(self, lack: Lack) -> Diagnosis | None:
        """Why the next pod does not fit, with as many as possible placed."""
        search = lack.search
        member = search.first_without_place(lack.kinds)
        if member is None:
            return None
        # A cycle of its own: that of the member is to stay as it was, also if reserved places are hidden here.
        cycle = self._algorithm.begin(member.cycle.pod, member.cycle.now, member.cycle.work)
        if (status := self._framework.prefilter(cycle)) is not None:
            return Diagnosis(len(search.nodes), status)
        return self._algorithm.diagnose(cycle, list(search.nodes.values()))


def _joined(kinds: Iterable[Requirements], parts: Sequence[Mapping[int, Node]]) -> Iterator[Mapping[int, Node]]:
    """Nodes of several flavors, one for each kind of pods, where its nodeSelector and affinity allow some of them."""
    possible = [
        [part for part in parts if any(kind.select(node.name, node.labels) for node in part.values())] for kind in kinds
    ]
    seen: set[frozenset[int]] = set()
    for chosen in islice(product(*possible), _MOST_JOINED):
        nodes = {number: node for part in chosen for number, node in part.items()}
        if len({id(part) for part in chosen}) > 1 and frozenset(nodes) not in seen:
            seen.add(frozenset(nodes))
            yield nodes


def _turn_in_queue(cycle: Cycle) -> Hashable:
    """Returns what the quota of a pod depends on beside its requests; nothing for a pod in no queue.

    Quota is the same on all nodes that are tried together (`_parts`), so that pods in a queue are packed like others.
    """
    asked = cycle.data.get(QueueQuota.name)
    return (asked.policy.label, asked.ask.queue, asked.ask.priority) if isinstance(asked, QueuedAsk) else ()


def _shared(claims: Iterable[PodClaims]) -> frozenset[Key]:
    """The unallocated claims that several of the pods use."""
    counts = Counter(key_of(claim) for of_pod in claims for claim in of_pod.unallocated)
    return frozenset(key for key, number in counts.items() if number > 1)


def _misplaced(root: Branch, nodes: Mapping[int, Node]) -> Status | None:
    """Why no domain is possible: placed pods are in several domains, or no node has the label."""
    checked = set[Path]()
    for branch in root.all():
        path = branch.topology.required
        if not path:
            continue
        if len(taken_values(path, branch.taken)) > 1:
            return Status.of("", Code.GANG_IN_SEVERAL_DOMAINS, branch.group.key.title, path[-1], error=True)
        if path not in checked and not domains_of(path, nodes):
            return Status.of("", Code.NO_PLACEMENTS, path[-1])
        checked.add(path)
    return None
