"""GroupAttempts: the pods of a group that must start together, or near each other, through the stages of an attempt.

All of them are tried when one of them is. Either at least as many as must start together get a place, in one action, or
all wait together and say why. Pods that come later, when the minimum is reached, are tried like any others, but in the
domain where the group is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dray.allocation import ATTEMPT, Work
from dray.api.objects import Key, Object, key_of
from dray.scheduling.actions import BindGroup, ClaimWrite, GroupPreemption, RefuseGroup
from dray.scheduling.cycle import Cycle
from dray.scheduling.group_model import Group
from dray.scheduling.group_placement import GroupPlacer
from dray.scheduling.group_preemption import GroupPreemptor
from dray.scheduling.group_trial import Member
from dray.scheduling.groups import reference
from dray.scheduling.model import Pod
from dray.scheduling.plugins.dynamic_resources import DynamicResources
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.queue import QueuedPod, SubQueue
from dray.scheduling.reasons import Code
from dray.scheduling.status import GroupDiagnosis, Status
from dray.scheduling.topology import rank_of

if TYPE_CHECKING:
    from dray.scheduling.scheduler import Scheduler

# Units of work for a group, beside those for each of its pods.
_GROUP: Final = 5 * ATTEMPT
_POD: Final = 1_000


class GroupAttempts:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._state = scheduler.state
        self._queue = scheduler.queue
        self._framework = scheduler.framework
        self._algorithm = scheduler.algorithm
        self._devices = scheduler.devices
        self._placer = GroupPlacer(scheduler.state, scheduler.framework, scheduler.algorithm, scheduler.devices)
        self._preemptor = GroupPreemptor(scheduler.state, scheduler.preemptor, self._placer)

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
        found, rejected = self._prepared(queued, now, work)
        if len(found) < need:
            return self._reject(group, queued, rejected, need, now)
        before = self._state.pods_revision
        with self._placer.trial(found, work) as (trial, members):
            idle = _idle(self._devices, members)
            answer = self._placer.place(group, members, need, trial)
            if answer is None:
                return self._bind(group, members)
            preemption = None
            if members[0].queued.pod.preempts and not (answer.error or answer.undecided or idle):
                preemption = self._preemptor.find(group, members, need, trial)
        self._scheduler.hints.undone(before)
        social = any(each.social for each in members)
        return self._refuse(group, queued, answer, now, idle, preemption, cluster_wide=social)

    def _prepared(
        self, queued: Sequence[QueuedPod], now: float, work: Work
    ) -> tuple[list[tuple[QueuedPod, Cycle]], list[tuple[QueuedPod, Status]]]:
        """Those that may fit on some node, and the others."""
        found, rejected = [], []
        for each in queued:
            cycle = self._algorithm.begin(each.pod, now, work)
            status = self._framework.prefilter(cycle) or self._devices.full_claim(cycle)
            if status is None:
                found.append((each, cycle))
            else:
                rejected.append((each, status))
        return found, rejected

    def diagnose(self, pod: Pod, now: float) -> GroupDiagnosis | None:
        """Why the group of a pod cannot be placed now; None where it can, or where the pod is placed by itself."""
        group, first = self.group_of(pod), self._queue.get(pod.uid)
        if group is None or first is None:
            return None
        queued, need = self._queued(group, first), self._state.groups.need(group)
        if (status := self._mismatch(group, queued)) is not None:
            return GroupDiagnosis(need, status=status, error=True)
        work = Work()
        found, rejected = self._prepared(queued, now, work)
        if len(found) < need:
            incomplete = Status.of(
                GangScheduling.name, Code.GANG_NOT_READY, group.key.title, str(len(found)), str(need)
            )
            return GroupDiagnosis(need, status=rejected[0][1] if rejected else incomplete)
        with self._placer.trial(found, work) as (trial, members):
            answer = self._placer.place(group, members, need, trial)
            trial.undo()
        return answer

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
        preemption: GroupPreemption | None = None,
        *,
        cluster_wide: bool = False,
    ) -> RefuseGroup | None:
        news = bool(release or (preemption is not None and preemption.victims))
        if group.timeout is not None:
            self._queue.postpone(group.key, (each.pod.uid for each in queued), now, group.timeout)
        for each in queued:
            news = news or each.reported != diagnosis
            each.reported = diagnosis
            self._keep_place(each.pod, preemption)
            self._scheduler.waiters.add(each.pod.uid, (reference(group.key),))
            if each.subqueue is not SubQueue.UNSCHEDULABLE:
                self._queue.add_unschedulable(
                    each, ("group", group.key), None, None, now, cluster_wide=cluster_wide, error=diagnosis.error
                )
        if not news:
            return None
        return RefuseGroup(group, tuple(each.pod for each in queued), diagnosis, release, preemption)

    def _keep_place(self, pod: Pod, preemption: GroupPreemption | None) -> None:
        place = preemption.places.get(pod.uid) if preemption is not None else None
        if place is not None:
            self._scheduler.nominations.keep(pod, place)
        else:
            self._scheduler.nominations.drop(pod.uid)


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
