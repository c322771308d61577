"""GroupAttempts: the pods of a group that must start together, or near each other, through the stages of an attempt.

All of them are tried when one of them is. Either at least as many as must start together get a place, in one action, or
all wait together and say why. Pods that come later, when the minimum is reached, are tried like any others, but in the
domain where the group is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dray.allocation import ATTEMPT, Work, WorkExhausted
from dray.api.objects import Key, Object, key_of
from dray.scheduling.actions import BindGroup, ClaimWrite, RefuseGroup
from dray.scheduling.cycle import Cycle, PodClaims
from dray.scheduling.group_model import Group
from dray.scheduling.group_search import GroupSearch, Kind
from dray.scheduling.group_trial import GroupTrial, Member
from dray.scheduling.groups import reference
from dray.scheduling.model import Pod
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.plugins.node_resources_fit import room
from dray.scheduling.queue import QueuedPod, SubQueue
from dray.scheduling.reasons import Code
from dray.scheduling.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.topology import Domain, domains_of, rank_of

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler

# Units of work for a group, beside those for each of its pods.
_GROUP: Final = 5 * ATTEMPT
_POD: Final = 1_000
# More are not placed in thought only to say what the next one lacks.
_MOST_EXPLAINED: Final = 64
_ANY_NUMBER: Final = 1 << 30
_NO_CLAIMS: Final[frozenset[Key]] = frozenset()


class GroupAttempts:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._framework = scheduler.framework
        self._algorithm = scheduler.algorithm
        self._devices = scheduler.devices

    def group_of(self, pod: Pod) -> Group | None:
        """The group, if the pod cannot be placed by itself."""
        groups = self._state.groups
        group = groups.of(pod)
        return group if group is not None and (group.topology or groups.need(group) > 1) else None

    def attempt(self, queued: QueuedPod, group: Group, now: float) -> BindGroup | RefuseGroup | None:
        groups = self._state.groups
        need = groups.need(group)
        if groups.ready_number(group) < need or self._framework.pre_enqueue(queued.pod) is not None:
            self._scheduler.enqueue(queued, now)
            if queued.subqueue is SubQueue.ACTIVE:
                # The last of them to become ready is tried with all others.
                self._queue.gate(queued, now)
            return None
        found = self._queued(group, queued)
        work = Work(_GROUP + _POD * len(found))
        with self._scheduler.nominations.out_of_sight_of(*[each.pod for each in found]):
            if (status := self._mismatch(group, found)) is not None:
                return self._refuse(group, found, GroupDiagnosis(need, status=status, error=True), now)
            return self._try(group, found, need, now, work)

    def _queued(self, group: Group, first: QueuedPod) -> list[QueuedPod]:
        """Those that can be tried, in the order of their ranks: neighbours go to one node, or to the next."""
        ready = self._state.groups.members(group.key).ready
        queued = [each for uid in ready if (each := self._queue.get(uid)) is not None]
        return sorted(
            (
                each
                for each in queued
                if each is first
                or (each.subqueue is not SubQueue.IN_FLIGHT and self._framework.pre_enqueue(each.pod) is None)
            ),
            key=lambda each: rank_of(each.pod),
        )

    def _mismatch(self, group: Group, queued: Sequence[QueuedPod]) -> Status | None:
        priorities = {each.pod.priority for each in queued}
        if group.priority is not None:
            priorities.add(group.priority)
        differing = "priority" if len(priorities) > 1 else ""
        if len({each.pod.preempts for each in queued}) > 1:
            differing = "preemption policy"
        if not differing:
            return None
        return Status.of(GangScheduling.name, Code.GANG_MISMATCH, differing, group.key.title, error=True)

    # Trying

    def _try(
        self, group: Group, queued: Sequence[QueuedPod], need: int, now: float, work: Work
    ) -> BindGroup | RefuseGroup | None:
        """What each pod needs by itself; then a place for all of them."""
        found, rejected = [], []
        for each in queued:
            cycle = self._algorithm.begin(each.pod, now, work)
            status = self._framework.prefilter(cycle) or self._devices.full_claim(cycle)
            if status is None:
                found.append((each, cycle))
            else:
                rejected.append((each, status))
        if len(found) < need:
            return self._reject(group, queued, rejected, need, now)
        shared = _shared(cycle.claims for _, cycle in found)
        members = [self._member(each, cycle, shared) for each, cycle in found]
        trial = GroupTrial(self._state, self._framework, self._algorithm, self._devices, work)
        idle, before = _idle(self._devices, members), self._state.pods_revision
        self._state.claims.shared = shared
        try:
            with self._state.trial():
                answer = self._place(group, members, need, trial)
        except Exception:
            trial.undo()
            raise
        finally:
            self._state.claims.shared = _NO_CLAIMS
        if isinstance(answer, GroupDiagnosis):
            self._scheduler.hints.undone(before)
            return self._refuse(group, queued, answer, now, idle)
        return self._bind(group, members)

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

    def _place(self, group: Group, members: Sequence[Member], need: int, trial: GroupTrial) -> GroupDiagnosis | None:
        """None where a place was found for enough of them, in one domain."""
        domains = self._domains(group)
        if isinstance(domains, Status):
            return GroupDiagnosis(need, status=domains, error=domains.error)
        kinds = self._kinds(members)
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

    def _domains(self, group: Group) -> list[Domain] | Status:
        placed = self._state.groups.members(group.key).placed.values()
        nodes = [node for pod in placed if (node := self._state.node_of(pod)) is not None]
        return domains_of(group, self._state, nodes)

    def _kinds(self, members: Sequence[Member]) -> list[Kind]:
        by_kind: dict[Hashable, list[Member]] = {}
        for each in members:
            by_kind.setdefault(each.kind, []).append(each)
        spread = self._state.inventory.is_spread
        return [self._kind(each, spread) for each in by_kind.values()]

    def _kind(self, members: list[Member], spread: bool) -> Kind:
        """Where pods of the kind could be, and how many at most."""
        state, cycle = self._state, members[0].cycle
        feasible = self._algorithm.feasible_nodes.of(cycle)
        numbers = feasible.numbers if cycle.nodes is None else feasible.numbers & cycle.nodes
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

    def _own(self, cycle: Cycle) -> list[Object]:
        shared = self._state.claims.shared
        return [claim for claim in cycle.claims.unallocated if key_of(claim) not in shared]

    def _following(self, search: GroupSearch, kinds: Sequence[Kind], trial: GroupTrial) -> Diagnosis | None:
        """Why there is no place for one more, with as many as possible placed."""
        if search.best > _MOST_EXPLAINED:
            return None
        try:
            member = search.first_without_place(kinds)
            if member is None or self._framework.prefilter(member.cycle) is not None:
                return None
            return self._algorithm.diagnose(member.cycle, list(search.nodes.values()))
        except WorkExhausted:
            return None
        finally:
            trial.undo()

    # What follows

    def _bind(self, group: Group, members: Sequence[Member]) -> BindGroup:
        binds, seen = [], set[tuple[Key, str]]()
        for member in members:
            placement = member.placement
            if placement is None:
                # The minimum is reached without it: tried again, as one that comes late.
                self._queue.retry(member.queued, member.cycle.now)
                continue
            self._scheduler.nominations.drop(member.queued.pod.uid)
            self._scheduler.attempts.start_binding(member.queued, placement)
            bind = self._scheduler.attempts.binding(member.queued, placement)
            # One reservation for the group serves all.
            writes = tuple(each for each in bind.writes if _is_new(each, seen))
            binds.append(replace(bind, writes=writes))
        return BindGroup(group, tuple(binds))

    def _reject(
        self,
        group: Group,
        queued: Sequence[QueuedPod],
        rejected: Sequence[tuple[QueuedPod, Status]],
        need: int,
        now: float,
    ) -> RefuseGroup | None:
        """Some of the pods fit on no node, whatever the nodes say."""
        if any(status.pending for _, status in rejected):
            for each in queued:
                self._queue.gate(each, now)
            return None
        for each, status in rejected:
            self._scheduler.waiters.add(each.pod.uid, status.waits_for)
        status = rejected[0][1]
        return self._refuse(group, queued, GroupDiagnosis(need, status=status, error=status.error), now)

    def _refuse(
        self,
        group: Group,
        queued: Sequence[QueuedPod],
        diagnosis: GroupDiagnosis,
        now: float,
        release: tuple[Object, ...] = (),
    ) -> RefuseGroup | None:
        news = bool(release)
        for each in queued:
            news = news or each.reported != diagnosis
            each.reported = diagnosis
            self._scheduler.nominations.drop(each.pod.uid)
            self._scheduler.waiters.add(each.pod.uid, (reference(group.key),))
            if each.subqueue is not SubQueue.UNSCHEDULABLE:
                self._queue.add_unschedulable(
                    each, ("group", group.key), None, None, now, cluster_wide=True, error=diagnosis.error
                )
        return RefuseGroup(group, tuple(each.pod for each in queued), diagnosis, release) if news else None


def _shared(claims: Iterable[PodClaims]) -> frozenset[Key]:
    """The claims that several pods use and that have no devices yet."""
    counts = Counter(key_of(claim) for each in claims for claim in each.unallocated)
    return frozenset(key for key, number in counts.items() if number > 1)


def _in_order(domains: Iterable[Domain], kinds: Sequence[Kind], wanted: int) -> list[tuple[Domain, list[Kind]]]:
    """Those first that have room for all pods, the smallest of them first; then those that have room for most."""

    def rank(each: tuple[Domain, list[Kind]]) -> tuple[int, int]:
        return -sum(kind.bound for kind in each[1]), sum(sum(kind.rooms.values()) for kind in each[1])

    return sorted(((domain, [kind.within(domain.nodes) for kind in kinds]) for domain in domains), key=rank)


def _is_new(write: ClaimWrite, seen: set[tuple[Key, str]]) -> bool:
    key = key_of(write.claim), str(write.consumer["uid"])
    if key in seen:
        return False
    seen.add(key)
    return True


def _idle(devices: DynamicResources, members: Iterable[Member]) -> tuple[Object, ...]:
    """Claims with devices that nobody but pods of the group uses, which waits: in another place they may all fit."""
    found = {
        key_of(claim): claim
        for each in members
        for claim in each.cycle.claims.allocated
        if devices.is_releasable(claim, each.queued.pod)
    }
    return tuple(found.values())
