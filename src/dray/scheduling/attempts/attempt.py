"""Attempt: one try to place pods that are placed together. A single pod is a group of one.

An attempt only decides: `decide` goes through the steps and returns an `Outcome`, which `Attempts` carries out. Steps
that differ between a single pod and a group are methods of `PodAttempt` and `GroupAttempt`. A single pod is placed,
and others are evicted for it, without the search over several pods: `benchmarks/test_scheduler_bench.py` shows why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import Enum, auto
from typing import NamedTuple

from dray.api.objects import Object
from dray.scheduling.attempts.context import Context
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.model.actions import Preemption
from dray.scheduling.model.group import Group, GroupKey, pod_key
from dray.scheduling.model.node import Node
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.placement.algorithm import Placement
from dray.scheduling.quota.queue_policy import Ask, QueuePolicy
from dray.scheduling.quota.reserved_quota import ReservedQuota
from dray.scheduling.waiting.queued_pods import QueuedPod, Wait


class Remedy(Enum):
    PLACE = auto()
    """The pods are placed on nodes."""
    GATE = auto()
    """The pods are not tried until an object that they name exists."""
    DISCARD = auto()
    """A claim of an earlier attempt is deleted first."""
    RELEASE = auto()
    """Claims that only the pods use are deallocated, so that they can get other devices."""
    SEARCH = auto()
    """The search for devices continues in the background."""
    EVICT = auto()
    """Other pods are evicted to free nodes, quota, or both."""
    WAIT = auto()
    """The pods wait for a change."""


class Unmet(NamedTuple):
    """A request to a queue that was not met. The pods are tried again when others take quota that is due to them."""

    policy: QueuePolicy
    ask: Ask
    lacks_quota: bool
    """Whether the pods lacked quota; otherwise they had quota and fit on no node."""
    place_key: Hashable
    """What places of the pods depend on; equal for pods that the same evictions help."""


class Outcome(NamedTuple):
    remedy: Remedy
    diagnosis: Diagnosis | GroupDiagnosis | None = None
    """Why no node fits; None only for PLACE and GATE."""
    wait: Wait | None = None
    """The changes that the pods wait for; None only for PLACE and GATE."""
    placements: tuple[tuple[QueuedPod, Placement], ...] = ()
    """Pods with their places. Pods of a group are assumed already, since the trial that found the places is kept."""
    rejected: tuple[tuple[QueuedPod, Status], ...] = ()
    """Pods of a group that the prefilter rejected."""
    claims: tuple[Object, ...] = ()
    """The claims to discard or to release."""
    searches: tuple[Node, ...] = ()
    """Nodes on which the search for devices continues."""
    preemption: Preemption | None = None
    quota: ReservedQuota | None = None
    """The quota that the evictions free; None if the pods have quota already."""
    unmet: Unmet | None = None
    may_reserve: bool = False
    """Whether a place may be reserved that is free when running pods end."""


class Attempt(ABC):
    group: Group | None = None
    """The group that is placed; None for a single pod."""

    def __init__(self, context: Context, queued: Sequence[QueuedPod], now: float) -> None:
        self._context = context
        self.queued = queued
        self.pods = tuple([member.pod for member in queued])
        self.now = now
        self.prefiltered: list[tuple[Cycle, Status | None]] = []
        """The pods whose prefilter was run, each with the rejection of the prefilter, if any."""

    @property
    def key(self) -> GroupKey:
        return self.group.key if self.group is not None else pod_key(self.queued[0].pod.key)

    def decide(self) -> Outcome:
        """Runs the steps until one of them has an outcome."""
        # Checks of the whole group come first: its pods cannot be checked while it is invalid, and no pod may use
        # quota that does not suffice for all. Then each pod is checked by itself, without nodes: its claims, volumes
        # and quota.
        outcome = self._admit() or self._prefilter()
        if outcome is not None:
            return outcome
        # Then nodes are searched. If none fits, the remedy that disturbs least is tried first.
        with self._trial():
            answer = self._place()
            if isinstance(answer, Outcome):
                return answer
            outcome, preempted = self._make_room(answer)
        # Quota of other queues comes last: it helps only if quota differs between nodes.
        return outcome if outcome is not None else self._reclaim_or_wait(answer, preempted)

    def _make_room(self, diagnosis: Diagnosis | GroupDiagnosis) -> tuple[Outcome | None, EvictionResult]:
        """Finds a remedy after no node fits. Returns its outcome, if any, and the result of preemption."""
        if diagnosis.error:
            return Outcome(Remedy.WAIT, diagnosis, self._wait(diagnosis), unmet=self._unmet()), NO_EVICTION
        if claims := self._releasable():
            # No pod is evicted for pods that hold devices which others could use.
            told = replace(diagnosis, deallocated=True) if isinstance(diagnosis, Diagnosis) else diagnosis
            return Outcome(Remedy.RELEASE, told, self._wait(diagnosis), claims=claims), NO_EVICTION
        if self._is_undecided(diagnosis):
            # No pod is evicted for pods that may fit without evictions.
            wait, unmet = self._wait(diagnosis), self._unmet()
            return Outcome(Remedy.SEARCH, diagnosis, wait, searches=self._searches(), unmet=unmet), NO_EVICTION
        preempted = self._preempt()
        if preempted.found is None:
            return None, preempted
        wait = self._wait(diagnosis, preempted)
        return Outcome(Remedy.EVICT, diagnosis, wait, preemption=preempted.found), preempted

    def _reclaim_or_wait(self, diagnosis: Diagnosis | GroupDiagnosis, preempted: EvictionResult) -> Outcome:
        reclaimed = self._reclaim(diagnosis)
        if reclaimed.found is not None:
            wait = self._wait(diagnosis, reclaimed)
            return Outcome(Remedy.EVICT, diagnosis, wait, preemption=reclaimed.found, quota=reclaimed.quota)
        wait = self._wait(diagnosis, preempted.and_later(reclaimed))
        return Outcome(Remedy.WAIT, diagnosis, wait, unmet=self._unmet(), may_reserve=True)

    # Steps of a single pod, or of a group

    @abstractmethod
    def _admit(self) -> Outcome | None:
        """Checks all pods together: validity of the group, and quota."""

    @abstractmethod
    def _prefilter(self) -> Outcome | None:
        """Checks each pod by itself, without nodes."""

    @abstractmethod
    def _trial(self) -> AbstractContextManager[object]:
        """Returns the trial for the search of nodes. Pods that are placed at its end stay assumed."""

    @abstractmethod
    def _place(self) -> Outcome | Diagnosis | GroupDiagnosis:
        """Finds nodes for as many pods as have to be placed together; returns a diagnosis if that is impossible."""

    @abstractmethod
    def _releasable(self) -> tuple[Object, ...]:
        """Returns allocated claims that no other pods use, without which the pods may fit on other nodes."""

    @abstractmethod
    def _is_undecided(self, diagnosis: Diagnosis | GroupDiagnosis) -> bool:
        """Whether a search for devices used up its work budget."""

    def _searches(self) -> tuple[Node, ...]:
        """Returns the nodes on which such a search continues in the background."""
        return ()

    @abstractmethod
    def _preempt(self) -> EvictionResult:
        """Finds pods to evict so that the pods fit on nodes."""

    @abstractmethod
    def _reclaim(self, diagnosis: Diagnosis | GroupDiagnosis) -> EvictionResult:
        """Finds pods to evict for quota that the pods lack only on some nodes."""

    @abstractmethod
    def _unmet(self) -> Unmet | None:
        """Returns the ask of pods that have quota but fit on no node; None for pods in no queue."""

    @abstractmethod
    def _wait(self, diagnosis: Diagnosis | GroupDiagnosis, evicting: EvictionResult = NO_EVICTION) -> Wait:
        """Returns what the pods wait for, after they fit on no node. `evicting` is the result of a search for
        evictions."""
