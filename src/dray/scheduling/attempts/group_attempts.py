"""GroupAttempts: the pods of a group that must start together, or near each other, through the stages of an attempt.

All of them are tried when one of them is. Either at least as many as must start together get a place, in one action, or
all wait together and say why. Pods that come later, when the minimum is reached, are tried like any others, but in the
domain where the group is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final

from dray.allocation import ATTEMPT, Work
from dray.api.objects import Key, Object, key_of
from dray.scheduling.attempts.pod_attempts import is_news
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.eviction.group_preemption import GroupPreemptor
from dray.scheduling.eviction.group_quota import GroupQuota
from dray.scheduling.eviction.results import EvictionResult
from dray.scheduling.groups.forest import Flawed
from dray.scheduling.groups.groups import reference
from dray.scheduling.model.actions import BindGroup, ClaimWrite, GroupPreemption, RefuseGroup
from dray.scheduling.model.group import Group, single
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import GroupDiagnosis, Status
from dray.scheduling.model.topology import rank_of
from dray.scheduling.placement.group_placement import GroupPlacer
from dray.scheduling.placement.group_trial import GroupTrial, Member
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.plugins.queue_quota import QueuedAsk
from dray.scheduling.reservations.group_reservations import GroupReservations
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue
from dray.scheduling.waiting.waits import Wait

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler

# Units of work for a group, beside those for each of its pods.
_GROUP: Final = 5 * ATTEMPT
_POD: Final = 1_000
_NOT_SOUGHT: Final = EvictionResult[GroupPreemption]()


class GroupAttempts:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._framework = scheduler.framework
        self._algorithm = scheduler.algorithm
        self._devices = scheduler.devices
        self.placer = GroupPlacer(scheduler.state, scheduler.framework, scheduler.algorithm, scheduler.devices)
        self._preemptor = GroupPreemptor(scheduler.state, scheduler.preemptor, self.placer)
        self._quota = GroupQuota(scheduler.state, scheduler.reclaimer, scheduler.preemptor, self.placer)
        self._reservations = scheduler.reservations
        self._group_reservations = GroupReservations(scheduler, self.placer)

    def group_of(self, pod: Pod) -> Group | None:
        """The group that the pod is placed with, if it cannot be placed by itself: the root of the tree."""
        groups = self._state.groups
        group = groups.of(pod)
        if group is None:
            return None
        root = groups.root(group)
        if isinstance(root, Flawed):
            return group
        if group.parent is None and not (group.topology or group.unknown) and groups.need(group) <= 1:
            return None
        return root

    def attempt(self, queued: QueuedPod, group: Group, now: float) -> BindGroup | RefuseGroup | None:
        groups = self._state.groups
        if (flaw := self._flaw(group)) is not None:
            found = self.queued(group, queued)
            if isinstance(groups.root(group), Flawed):
                # Others of the tree are told by themselves; else each would have it told to them anew, without end.
                found = [each for each in found if each.pod.group == group.key]
            found = found if queued in found else [queued]
            self._reservations.forget(group.key)
            return self._refuse(group, found, GroupDiagnosis(1, status=flaw, error=flaw.error), now)
        need = groups.need(group)
        if not groups.is_ready(group) or self._framework.pre_enqueue(queued.pod) is not None:
            self._reservations.forget(group.key)
            self._scheduler.enqueue(queued, now)
            if queued.subqueue is SubQueue.ACTIVE:
                # The last of them to become ready is tried with all others.
                self._queue.gate(queued, now)
                self._state.queues.let_pass(queued.pod)
            return None
        found = self.queued(group, queued)
        work = _work_for(found)
        pods = [each.pod for each in found]
        with self._scheduler.nominations.hidden_from(*pods), self._state.queues.lent_to(*pods):
            if (status := self._mismatch(group, found)) is not None:
                self._reservations.forget(group.key)
                return self._refuse(group, found, GroupDiagnosis(need, status=status, error=True), now)
            for pod in pods:
                self._state.queues.reclaim_waiters.remove(pod.uid)
            lack = self._quota.lack(pods, need, now)
            if lack is not None:
                return self._reclaim(group, found, lack, need, now, work)
            return self._try(group, found, need, now, work)

    def _flaw(self, group: Group) -> Status | None:
        """Why nobody can say what the group is placed with, or where."""
        root = self._state.groups.root(group)
        if isinstance(root, Flawed):
            where = root.where.title
            return Status.of(
                GangScheduling.name, Code.GROUP_INVALID, group.key.title, root.flaw.value, where, error=True
            )
        for each in self._state.groups.forest.below(root):
            if each.unknown:
                return Status.of(GangScheduling.name, Code.GROUP_UNKNOWN, each.key.title, each.unknown)
        return None

    def queued(self, group: Group, first: QueuedPod) -> list[QueuedPod]:
        """Returns the pods that can be tried, by rank: neighbours go to one node, or to the next."""
        ready = [uid for each in self._state.groups.leaves(group) for uid in self._state.groups.members(each.key).ready]
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
        found, rejected = self._prepared(queued, now, work)
        for each, status in rejected:
            if status.lets_pass:
                self._state.queues.let_pass(each.pod)
        if len(found) < need or (rejected and not self._suffice(group, found)):
            return self._reject(group, queued, rejected, need, now)
        with self.placer.trial(found, work) as (trial, members):
            idle = _idle(self._devices, members)
            least = self._least(group, members)
            answer = self.placer.place(group, least, need, trial)
            if answer is not None and len(least) < len(members) and len({each.kind for each in members}) > 1:
                # Others of its pods may fit where these do not.
                answer = self.placer.place(group, members, need, trial)
            if answer is not None and self._reservations.active:
                answer = self._group_reservations.beside(group, least, need, trial, answer)
            searched = self._make_room(group, least, need, trial, answer, idle) if answer is not None else _NOT_SOUGHT
        if answer is None:
            # One that was taken from the queue and cannot be tried would not come back.
            self._leave_out([each for each, _ in rejected if each.subqueue is SubQueue.ACTIVE], now)
            return self._bind(group, members)
        if searched.found is None and not (answer.error or answer.undecided or idle):
            # There may be quota, and not where there are places.
            pods, prepared = [each.pod for each in queued], partial(self._prepare, group, queued, now, work)
            reclaimed = self._quota.reclaim_for(pods, group, need, prepared, now)
            awaits_binding = searched.awaits_binding or reclaimed.awaits_binding
            searched = replace(searched, found=reclaimed.found, awaits_binding=awaits_binding)
        if searched.found is None:
            self._quota.unplaced([each.pod for each in queued], need, now)
        else:
            self._reservations.forget(group.key)
            self._quota.keep([each.pod for each in queued], searched.found)
        wide = any(self._framework.own_filters(member.cycle) for member in members)
        return self._refuse(group, queued, answer, now, idle, searched, cluster_wide=wide)

    def _make_room(
        self,
        group: Group,
        members: Sequence[Member],
        need: int,
        trial: GroupTrial,
        answer: GroupDiagnosis,
        idle: tuple[Object, ...],
    ) -> EvictionResult[GroupPreemption]:
        """Finds pods to evict for the group. If there are none, a place may be reserved for it that will be free."""
        searched = _NOT_SOUGHT
        if members[0].queued.pod.preempts and not (answer.error or answer.undecided or idle):
            searched = self._preemptor.find(group, members, need, trial)
        queued = [each.queued for each in members]
        if searched.found is not None or idle:
            self._reservations.forget(group.key)
        elif not (answer.error or answer.undecided) and self._reservations.refused(group, queued, members[0].cycle.now):
            self._group_reservations.seek(group, members, need, trial)
        return searched

    def reserve_place_for(self, queued: QueuedPod, now: float) -> None:
        """Keeps a place for a pod by itself for which there is no room, where it is its turn."""
        pod = queued.pod
        group = single(pod.key, pod.uid, pod.document)
        if self._reservations.refused(group, [queued], now):
            work = _work_for([queued])
            found, _ = self._prepared([queued], now, work)
            if found:
                with self.placer.trial(found, work) as (trial, members):
                    self._group_reservations.seek(group, members, 1, trial)

    def _suffice(self, group: Group, found: Iterable[tuple[QueuedPod, Cycle]]) -> bool:
        """Whether so many pods are enough, of each group that they belong to."""
        counts = Counter(each.pod.group for each, _ in found)
        groups = self._state.groups
        return groups.is_started(group) or groups.can_start(group, lambda each: counts[each.key])

    def _prepared(
        self, queued: Sequence[QueuedPod], now: float, work: Work
    ) -> tuple[list[tuple[QueuedPod, Cycle]], list[tuple[QueuedPod, Status]]]:
        """Those that may fit on some node, and the others."""
        found, rejected = [], []
        joining: dict[Key, set[str]] = {}
        for each in queued:
            cycle = self._algorithm.begin(each.pod, now, work)
            status = self._framework.prefilter(cycle) or self._devices.full_claim(cycle, joining)
            if status is None:
                found.append((each, cycle))
                for claim, consumer in self._devices.new_consumers(cycle):
                    joining.setdefault(claim, set()).add(consumer)
            else:
                rejected.append((each, status))
        return found, rejected

    def _prepare(
        self, group: Group, queued: Sequence[QueuedPod], now: float, work: Work
    ) -> list[tuple[QueuedPod, Cycle]]:
        found = self._prepared(queued, now, work)[0]
        least = {pod.uid for pod in self._state.groups.next_to_place(group, (each.pod for each, _ in found))}
        return [each for each in found if each[0].pod.uid in least]

    def _least(self, group: Group, members: Sequence[Member]) -> list[Member]:
        """Those that are placed now: of an elastic group no more than its minimum, so that others come next."""
        least = {pod.uid for pod in self._state.groups.next_to_place(group, (each.queued.pod for each in members))}
        return [each for each in members if each.queued.pod.uid in least]

    def _reclaim(
        self,
        group: Group,
        queued: Sequence[QueuedPod],
        lack: tuple[QueuedAsk | None, Status],
        need: int,
        now: float,
        work: Work,
    ) -> RefuseGroup | None:
        """The group's queue has too little for it: others go, if they have to and it would find its places then."""
        asked, status = lack
        self._reservations.forget(group.key)
        searched = _NOT_SOUGHT
        if asked is not None:
            searched = self._quota.reclaim(asked, group, need, partial(self._prepare, group, queued, now, work))
        for each in queued:
            self._scheduler.waiters.add(each.pod.uid, status.waits_for)
        # Where it is not their turn, no room on any node helps them.
        nodes = None if asked is not None else frozenset[int]()
        return self._refuse(group, queued, GroupDiagnosis(need, status=status), now, (), searched, nodes=nodes)

    def diagnose(self, pod: Pod, now: float) -> GroupDiagnosis | None:
        """Why the group of a pod cannot be placed now; None where it can, or where the pod is placed by itself."""
        group, first = self.group_of(pod), self._queue.get(pod.uid)
        if group is None or first is None:
            return None
        if (flaw := self._flaw(group)) is not None:
            return GroupDiagnosis(1, status=flaw, error=flaw.error)
        queued, need = self.queued(group, first), self._state.groups.need(group)
        if (status := self._mismatch(group, queued)) is not None:
            return GroupDiagnosis(need, status=status, error=True)
        if (lack := self._quota.lack([each.pod for each in queued], need, now)) is not None:
            return GroupDiagnosis(need, status=lack[1])
        work = _work_for(queued)
        found, rejected = self._prepared(queued, now, work)
        if len(found) < need or not self._suffice(group, found):
            incomplete = Status.of(
                GangScheduling.name, Code.GANG_NOT_READY, group.key.title, str(len(found)), str(need)
            )
            return GroupDiagnosis(need, status=rejected[0][1] if rejected else incomplete)
        with self.placer.trial(found, work) as (trial, members):
            answer = self.placer.place(group, members, need, trial)
            trial.undo()
        return answer

    # What follows

    def _bind(self, group: Group, members: Sequence[Member]) -> BindGroup:
        self._reservations.forget(group.key)
        binds, seen = [], set[tuple[Key, str]]()
        for member in members:
            placement = member.placement
            if placement is None:
                if self._state.groups.is_elastic(group):
                    self._postpone(member.queued, member.cycle.now)
                else:
                    self._leave_out([member.queued], member.cycle.now)
                continue
            self._scheduler.nominations.drop(member.queued.pod.uid)
            self._scheduler.attempts.start_binding(member.queued, placement)
            bind = self._scheduler.attempts.binding(member.queued, placement)
            # One reservation for the group serves all.
            writes = tuple(each for each in bind.writes if _is_new(each, seen))
            binds.append(replace(bind, writes=writes))
        return BindGroup(group, tuple(binds))

    def _postpone(self, queued: QueuedPod, now: float) -> None:
        """The minimum of an elastic group has its places: the pod has its turn after the minimum of other groups."""
        self._scheduler.nominations.give_up(queued.pod.uid)
        if queued.subqueue is not SubQueue.BACKOFF:
            self._queue.try_again(queued, now)

    def _leave_out(self, queued: Iterable[QueuedPod], now: float) -> None:
        """The minimum is reached without them: tried again, as those that come late. No place is kept meanwhile."""
        for each in queued:
            self._scheduler.nominations.give_up(each.pod.uid)
            self._queue.retry(each, now)

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
        self._reservations.forget(group.key)
        for each, status in rejected:
            self._scheduler.waiters.add(each.pod.uid, status.waits_for)
        status = rejected[0][1]
        wide = not status.waits_for and self._framework.is_cluster_wide(status.plugin)
        diagnosis = GroupDiagnosis(need, status=status, error=status.error)
        return self._refuse(group, queued, diagnosis, now, cluster_wide=wide)

    def _refuse(
        self,
        group: Group,
        queued: Sequence[QueuedPod],
        diagnosis: GroupDiagnosis,
        now: float,
        release: tuple[Object, ...] = (),
        searched: EvictionResult[GroupPreemption] = _NOT_SOUGHT,
        *,
        nodes: frozenset[int] | None = None,
        cluster_wide: bool = False,
    ) -> RefuseGroup | None:
        preemption = searched.found
        diagnosis = replace(diagnosis, reservation=self._reservations.period(group))
        news = any([self._scheduler.reasons.report(each, diagnosis) for each in queued])
        to_do = bool(release or (preemption is not None and preemption.victims))
        if group.timeout is not None:
            self._queue.postpone(group.key, (each.pod.uid for each in queued), now, group.timeout)
        awaits_binding = searched.awaits_binding and preemption is None
        to_do = self._keep_places(queued, preemption) or to_do
        binding = awaits_binding or self._reservations.awaits_binding(group)
        retry_at = searched.retry_at if preemption is None else inf
        wait = Wait(("group", group.key), nodes=nodes, cluster_wide=cluster_wide, binding=binding, at=retry_at)
        for each in queued:
            self._scheduler.waiters.add(each.pod.uid, (reference(group.key),))
            if each.subqueue is not SubQueue.UNSCHEDULABLE:
                self._queue.add_unschedulable(each, None, replace(wait, error=diagnosis.error), now)
            if each.entry is not None:
                self._queue.entries.await_binding(each.entry, binding=binding)
        if not (news or to_do):
            return None
        return RefuseGroup(group, tuple(each.pod for each in queued), diagnosis, release, preemption, news)

    def _keep_places(self, queued: Sequence[QueuedPod], preemption: GroupPreemption | None) -> bool:
        """Whether some of the pods do not say so yet."""
        found = preemption.places if preemption is not None else {}
        reclaims = preemption is not None and preemption.reclaims
        places = {each.pod: replace(found[each.pod.uid], reclaims=reclaims) for each in queued if each.pod.uid in found}
        for each in queued:
            if each.pod not in places:
                self._scheduler.nominations.give_up(each.pod.uid)
        self._scheduler.nominations.keep_all(places)
        return any([is_news(pod, place) for pod, place in places.items()])


def _work_for(queued: Sequence[QueuedPod]) -> Work:
    return Work(_GROUP + _POD * len(queued))


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
