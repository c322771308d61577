"""Attempt: one try to place pods that are placed together. A single pod is a group of one.

An attempt only decides: `decide` goes through the steps and returns an `Outcome`, which `Effects` carries out. Steps
that differ between a single pod and a group are methods of `PodAttempt` and `GroupAttempt`. A single pod is placed,
and others are evicted for it, without the search over several pods: `benchmarks/test_scheduler_bench.py` shows why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from dray.api.objects import Object
from dray.scheduling.attempts.context import Context
from dray.scheduling.attempts.outcome import Outcome, Remedy, Unmet
from dray.scheduling.core.cycle import Cycle
from dray.scheduling.eviction.results import NO_EVICTION, EvictionResult
from dray.scheduling.model.group import Group, GroupKey, pod_key
from dray.scheduling.model.node import Node
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis, Status
from dray.scheduling.waiting.queued_pods import QueuedPod
from dray.scheduling.waiting.waits import Wait


class Attempt(ABC):
    group: Group | None = None
    """The group that the pods are placed with; None for a pod by itself."""

    def __init__(self, context: Context, queued: Sequence[QueuedPod], now: float) -> None:
        self._context = context
        self.queued = queued
        self.now = now
        self.prefiltered: list[tuple[Cycle, Status | None]] = []
        """The pods whose prefilter was run, and why they fit on no node whatever the nodes say."""

    @property
    def key(self) -> GroupKey:
        return self.group.key if self.group is not None else pod_key(self.queued[0].pod.key)

    def decide(self) -> Outcome:
        """Goes through the steps until one of them knows what to do."""
        # What concerns the group as a whole comes first: nothing can be said of its pods while it is invalid, and none
        # of them may use quota that does not suffice for all. Then each pod by itself, as that needs no look at any
        # node: its claims, its volumes, its quota.
        outcome = self._admit() or self._prefilter()
        if outcome is not None:
            return outcome
        # Then the nodes, and if none fits what makes a place, the least disturbing first.
        with self._trial():
            answer = self._place()
            if isinstance(answer, Outcome):
                return answer
            outcome, preempted = self._make_room(answer)
        # Quota of other queues comes last: it helps only where quota differs between nodes.
        return outcome if outcome is not None else self._reclaim_or_wait(answer, preempted)

    def _make_room(self, diagnosis: Diagnosis | GroupDiagnosis) -> tuple[Outcome | None, EvictionResult]:
        """No node fits: looks for what helps. Returns what preemption learnt too."""
        if diagnosis.error:
            return Outcome(Remedy.WAIT, diagnosis, self._wait(diagnosis), unmet=self._unmet()), NO_EVICTION
        if claims := self._releasable():
            # Nobody is evicted for pods that hold devices which others could use.
            told = replace(diagnosis, deallocated=True) if isinstance(diagnosis, Diagnosis) else diagnosis
            return Outcome(Remedy.RELEASE, told, self._wait(diagnosis), claims=claims), NO_EVICTION
        if self._is_undecided(diagnosis):
            # No pod is evicted for pods that may fit as things are.
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
        awaits_binding = preempted.awaits_binding or reclaimed.awaits_binding
        retry_at = min(preempted.retry_at, reclaimed.retry_at)
        wait = self._wait(diagnosis, replace(preempted, awaits_binding=awaits_binding, retry_at=retry_at))
        return Outcome(Remedy.WAIT, diagnosis, wait, unmet=self._unmet(), may_reserve=True)

    # Steps of a single pod, or of a group

    @abstractmethod
    def _admit(self) -> Outcome | None:
        """Checks what concerns all pods together, without a look at any of them."""

    @abstractmethod
    def _prefilter(self) -> Outcome | None:
        """Checks what concerns each pod by itself, without a look at any node."""

    @abstractmethod
    def _trial(self) -> AbstractContextManager[object]:
        """Is open while nodes are searched. What is placed in it at the end stays assumed."""

    @abstractmethod
    def _place(self) -> Outcome | Diagnosis | GroupDiagnosis:
        """Finds nodes for as many pods as have to be placed together, or tells why not."""

    @abstractmethod
    def _releasable(self) -> tuple[Object, ...]:
        """Returns claims with devices that no other pods use, and without which there may be a place elsewhere."""

    @abstractmethod
    def _is_undecided(self, diagnosis: Diagnosis | GroupDiagnosis) -> bool:
        """Tells whether a search for devices was given up for lack of work."""

    def _searches(self) -> tuple[Node, ...]:
        """Returns nodes on which such a search goes on elsewhere."""
        return ()

    @abstractmethod
    def _preempt(self) -> EvictionResult:
        """Finds pods to evict for a place."""

    @abstractmethod
    def _reclaim(self, diagnosis: Diagnosis | GroupDiagnosis) -> EvictionResult:
        """Finds pods to evict for quota that the pods lack on some nodes."""

    @abstractmethod
    def _unmet(self) -> Unmet | None:
        """Returns what pods with quota and without a place asked their queue for; None for pods in no queue."""

    @abstractmethod
    def _wait(self, diagnosis: Diagnosis | GroupDiagnosis, evicting: EvictionResult = NO_EVICTION) -> Wait:
        """Returns what pods wait for that fit on no node, after a search for pods to evict."""
