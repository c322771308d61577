"""GroupAttempt: the steps of an attempt for pods of a group that must start together, or near each other.

All pods of the group are tried together. Either at least as many as must start together are placed, in one action, or
all wait together with one reason. Pods that are created after the group has started are tried like other pods, but in
the domain of the group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from dray.allocation import ATTEMPT, Work
from dray.api.objects import Key, Object, key_of
from dray.scheduling.attempts.attempt import Attempt, Outcome, Remedy, Unmet
from dray.scheduling.attempts.context import Context
from dray.scheduling.attempts.pod_attempt import NOWHERE
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.groups.forest import Flawed
from dray.scheduling.groups.groups import Groups, reference
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code, ObjectRef
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.model.topology import rank_of
from dray.scheduling.placement.group_trial import Member
from dray.scheduling.plugins.gang_scheduling import GangScheduling
from dray.scheduling.reservations.place_search import PlaceSearchResult
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue, Wait

# The work budget of a group, in addition to that for each of its pods.
_GROUP: Final = 5 * ATTEMPT
_POD: Final = 1_000

Prefiltered = list[tuple[QueuedPod, Cycle]]
"""Pods that passed the prefilter, with their cycles."""


def group_of(groups: Groups, pod: Pod) -> Group | None:
    """Returns the root of the tree of groups that the pod is placed with; None if the pod is placed by itself."""
    group = groups.of(pod)
    if group is None:
        return None
    root = groups.root(group)
    if isinstance(root, Flawed):
        return group
    if group.parent is None and not (group.topology or group.unknown) and groups.need(group) <= 1:
        return None
    return root


def flaw_of(groups: Groups, group: Group) -> Status | None:
    """Returns why the group cannot be placed: its tree is invalid, or names an object that does not exist."""
    root = groups.root(group)
    if isinstance(root, Flawed):
        where = root.where.title
        return Status.of(GangScheduling.name, Code.GROUP_INVALID, group.key.title, root.flaw.value, where, error=True)
    for part in groups.forest.below(root):
        if part.unknown:
            return Status.of(GangScheduling.name, Code.GROUP_UNKNOWN, part.key.title, part.unknown)
    return None


def queued_pods(context: Context, group: Group, first: QueuedPod) -> list[QueuedPod]:
    """Returns the pods that can be tried with the first, by rank, so that neighbours are placed near each other."""
    groups, pre_enqueue = context.state.groups, context.framework.pre_enqueue
    ready = [uid for leaf in groups.leaves(group) for uid in groups.members(leaf.key).ready]
    found = [queued for uid in ready if (queued := context.queue.get(uid)) is not None]
    return sorted(
        (
            queued
            for queued in found
            if queued is first or (queued.subqueue is not SubQueue.IN_FLIGHT and pre_enqueue(queued.pod) is None)
        ),
        key=lambda queued: rank_of(queued.pod),
    )


class GroupAttempt(Attempt):
    group: Group

    def __init__(
        self, context: Context, group: Group, queued: Sequence[QueuedPod], now: float, flaw: Status | None = None
    ) -> None:
        """`flaw` tells why the group cannot be placed (`flaw_of`)."""
        super().__init__(context, queued, now)
        self.group = group
        self._groups = context.state.groups
        self._flaw = flaw
        self.need = self._groups.need(group) if flaw is None else 1
        self._pods = [member.pod for member in queued]
        self._work = Work(_GROUP + _POD * len(queued))
        self._found: Prefiltered = []
        self._members: Sequence[Member] = ()
        self._idle: tuple[Object, ...] = ()
        self._least: Sequence[Member] = ()
        """The members that are placed now: of an elastic group at most its minimum, so that other groups come next."""

    # Steps

    def _admit(self) -> Outcome | None:
        status = self._flaw or self._mismatch()
        if status is not None:
            diagnosis = GroupDiagnosis(self.need, status=status, error=status.error)
            return Outcome(Remedy.WAIT, diagnosis, self._wait(diagnosis))
        lack = self._context.reclaimer.lack(self._pods, self.need, self.now)
        if lack is None:
            return None
        asked, status = lack
        result = NO_EVICTION
        if asked is not None:
            result = self._context.reclaimer.for_group(asked, self.group, self.need, self.prefiltered_least)
        diagnosis = GroupDiagnosis(self.need, status=status)
        # While the pods wait for others of their queue, no change of nodes helps them.
        nodes = None if asked is not None else NOWHERE
        wait = self._wait(diagnosis, result, nodes=nodes, objects=status.waits_for)
        if result.found is not None:
            return Outcome(Remedy.EVICT, diagnosis, wait, preemption=result.found, quota=result.quota)
        unmet = Unmet(asked.policy, asked.ask, True, self._place_key()) if asked is not None else None
        return Outcome(Remedy.WAIT, diagnosis, wait, unmet=unmet)

    def _mismatch(self) -> Status | None:
        priorities = {pod.priority for pod in self._pods}
        if self.group.priority is not None:
            priorities.add(self.group.priority)
        differing = "priority" if len(priorities) > 1 else ""
        if len({pod.preempts for pod in self._pods}) > 1:
            differing = "preemption policy"
        if not differing:
            return None
        return Status.of(GangScheduling.name, Code.GANG_MISMATCH, differing, self.group.key.title, error=True)

    def _prefilter(self) -> Outcome | None:
        answers = self._run_prefilter()
        self.prefiltered = [(cycle, status) for _, cycle, status in answers]
        self._found = [(queued, cycle) for queued, cycle, status in answers if status is None]
        rejected = [(queued, status) for queued, _, status in answers if status is not None]
        if len(self._found) >= self.need and (not rejected or self._suffice()):
            return None
        status = rejected[0][1] if rejected else self._incomplete()
        diagnosis = GroupDiagnosis(self.need, status=status, error=status.error)
        if any(status.pending for _, status in rejected):
            return Outcome(Remedy.GATE, diagnosis)
        wide = not status.waits_for and self._context.framework.is_cluster_wide(status.plugin)
        return Outcome(Remedy.WAIT, diagnosis, self._wait(diagnosis, cluster_wide=wide), rejected=tuple(rejected))

    def _run_prefilter(self) -> list[tuple[QueuedPod, Cycle, Status | None]]:
        """Runs the prefilter of all pods; a status tells why a pod fits on no node."""
        context = self._context
        answers: list[tuple[QueuedPod, Cycle, Status | None]] = []
        for queued in self.queued:
            cycle = context.algorithm.begin(queued.pod, self.now, self._work)
            answers.append((queued, cycle, context.framework.prefilter(cycle)))
        passed = [cycle for _, cycle, status in answers if status is None]
        return self._with_full_claims(answers) if context.devices.may_fill_claims(passed) else answers

    def _with_full_claims(
        self, answers: Iterable[tuple[QueuedPod, Cycle, Status | None]]
    ) -> list[tuple[QueuedPod, Cycle, Status | None]]:
        """Rejects the pods that would be one consumer too many of a claim, after the pods before them."""
        devices, found = self._context.devices, []
        joining: dict[Key, set[str]] = {}
        for queued, cycle, status in answers:
            status = status or devices.full_claim(cycle, joining)
            found.append((queued, cycle, status))
            if status is None:
                for claim, consumer in devices.new_consumers(cycle):
                    joining.setdefault(claim, set()).add(consumer)
        return found

    def prefiltered_least(self) -> Prefiltered:
        """Runs the prefilter in the current state. Returns the pods that passed it and are placed next."""
        found = [(queued, cycle) for queued, cycle, status in self._run_prefilter() if status is None]
        least = {pod.uid for pod in self._groups.next_to_place(self.group, (queued.pod for queued, _ in found))}
        return [(queued, cycle) for queued, cycle in found if queued.pod.uid in least]

    def _incomplete(self) -> Status:
        title, number = self.group.key.title, str(len(self._found))
        return Status.of(GangScheduling.name, Code.GANG_NOT_READY, title, number, str(self.need))

    def _suffice(self) -> bool:
        """Whether each group has enough of the pods that passed the prefilter."""
        counts = Counter(queued.pod.group for queued, _ in self._found)
        return self._groups.is_started(self.group) or self._groups.can_start(
            self.group, lambda group: counts[group.key]
        )

    @contextmanager
    def _trial(self) -> Iterator[None]:
        with self._context.placer.trial(self._found, self._work) as (self._group_trial, self._members):
            pods = (member.queued.pod for member in self._members)
            least = {pod.uid for pod in self._groups.next_to_place(self.group, pods)}
            self._least = [member for member in self._members if member.queued.pod.uid in least]
            self._idle = self._idle_claims()
            yield

    def _place(self) -> Outcome | GroupDiagnosis:
        context, members, least, trial = self._context, self._members, self._least, self._group_trial
        answer = context.placer.place(self.group, least, self.need, trial)
        if answer is not None and len(least) < len(members) and len({member.kind for member in members}) > 1:
            # Other pods of the group may fit where these do not.
            answer = context.placer.place(self.group, members, self.need, trial)
        if answer is not None and context.reservations.active:
            answer = self._beside_reservation(answer)
        if answer is not None:
            return answer
        placements = ((member.queued, member.placement) for member in members)
        found = tuple((queued, placement) for queued, placement in placements if placement is not None)
        return Outcome(Remedy.PLACE, placements=found)

    def _beside_reservation(self, diagnosis: GroupDiagnosis) -> GroupDiagnosis | None:
        """Tries again with the places that are reserved for another group. Pods that end in time may use them; for
        others the diagnosis names the reservation."""
        context = self._context
        if context.reservations.period(self.group.key) is not None:
            return diagnosis
        with context.nominations.without_reservations():
            if context.placer.place(self.group, self._least, self.need, self._group_trial) is not None:
                return diagnosis
        if context.reservations.lets_pass([member.queued.pod for member in self._least], self.now):
            return None
        self._group_trial.undo()
        return GroupDiagnosis(self.need, status=context.reservations.status())

    def _idle_claims(self) -> tuple[Object, ...]:
        """Returns allocated claims that only waiting pods of the group use: without them the group may fit
        elsewhere."""
        found = {
            key_of(claim): claim
            for member in self._members
            for claim in member.cycle.claims.allocated
            if self._context.devices.is_releasable(claim, member.queued.pod)
        }
        return tuple(found.values())

    def _releasable(self) -> tuple[Object, ...]:
        return self._idle

    def _is_undecided(self, diagnosis: Diagnosis | GroupDiagnosis) -> bool:
        return isinstance(diagnosis, GroupDiagnosis) and diagnosis.undecided

    def _preempt(self) -> EvictionResult:
        if not self._pods[0].preempts:
            return NO_EVICTION
        return self._context.group_preemptor.find(self.group, self._least, self.need, self._group_trial)

    def _reclaim(self, diagnosis: Diagnosis | GroupDiagnosis) -> EvictionResult:
        # There may be quota, but not for the nodes on which the pods fit.
        quota = self._context.reclaimer
        found = quota.for_flavors(self._pods, self.group, self.need, self.prefiltered_least, self.now)
        # Quota is reserved for each pod by itself, for the place that was found.
        return replace(found, quota=None)

    def search_future_place(self) -> PlaceSearchResult | None:
        """Searches for places that will be free when pods end; None if too few pods can be tried. Nothing stays
        assumed."""
        context, found = self._context, self.prefiltered_least()
        if not found:
            return None
        near = context.reservations.near(self.group.key)
        with context.placer.trial(found, self._work) as (trial, members):
            place = partial(context.placer.place, self.group, members, self.need, trial, anew=True)
            return context.place_search.find(self.group, members, trial, lambda: place() is None, near, self.now)

    def diagnose(self) -> GroupDiagnosis | None:
        """Returns why the group cannot be placed now; None if it can. Nothing is evicted, and nothing stays assumed."""
        outcome = self._admit() or self._prefilter()
        if outcome is not None:
            assert isinstance(outcome.diagnosis, GroupDiagnosis)
            return outcome.diagnosis
        with self._trial():
            answer = self._place()
            self._group_trial.undo()
        return answer if not isinstance(answer, Outcome) else None

    # What the pods wait for

    def _unmet(self) -> Unmet | None:
        asks = self._context.reclaimer.asks(self._pods, self.need, self.now)
        return Unmet(asks[0].policy, asks[1], False, self._place_key()) if asks is not None else None

    def _place_key(self) -> Hashable:
        # Claims are not compared: groups that ask for the same amounts of a queue mostly ask for the same devices.
        return self.group.topology, self.need, frozenset(pod.requirements for pod in self._pods)

    def _wait(
        self,
        diagnosis: Diagnosis | GroupDiagnosis,
        evicting: EvictionResult = NO_EVICTION,
        *,
        nodes: frozenset[int] | None = None,
        objects: tuple[ObjectRef, ...] = (),
        cluster_wide: bool = False,
    ) -> Wait:
        found = evicting.found is not None
        return Wait(
            ("group", self.group.key),
            nodes=nodes,
            cluster_wide=cluster_wide
            or any(self._context.framework.own_filters(member.cycle) for member in self._members),
            objects=(*objects, reference(self.group.key)),
            binding=evicting.awaits_binding and not found,
            at=evicting.retry_at if not found else inf,
            error=diagnosis.error,
        )
