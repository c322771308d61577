"""WaitIndex: all waiting pods by what they wait for. Every event that may help waiting pods is passed to `wake`.

| A pod waits for | Where it is | Events |
|---|---|---|
| objects, its group too | `objects` | ObjectChanged |
| room on nodes, devices, a binding | `entries` of the queue, judged by hints | PodBound, SearchEnded |
| quota for some nodes, a share of it | `entries` of the queue | QuotaChanged, SharesChanged |
| quota | `entries` of the queue, by what they lack (`quota`) | QuotaChanged |
| quota that it may reclaim once others take it | `reclaims` | QuotaChanged |
| its turn, or quota that is reserved for it | queue systems choose the next pod | PodsReady |
| a time | timers of the queue | - |

Changes of nodes and of nominations are no events: the logs of the state tell `wake_changed` about them. Pods are tried
again in the order of the queue. Nothing is woken by what happens inside a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from dray.allocation import Work
from dray.scheduling.cluster.device_demand import DeviceDemand
from dray.scheduling.core.state import State
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.quota.queue_policy import QueuePolicy
from dray.scheduling.quota.queues import Queues
from dray.scheduling.quota.quota_log import QuotaChanges
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue, WaitEntry
from dray.scheduling.waiting.quota_waits import QUOTA, QuotaWaits, ReclaimWaits


class ObjectChanged(NamedTuple):
    """An object was created, changed or deleted, or pods that wait for it may use it now."""

    changed: ObjectRef


class PodsReady(NamedTuple):
    """Pods need not wait any more: it is their turn, or the quota that they lacked may be free."""

    uids: Sequence[str]


class ReasonsOutdated(NamedTuple):
    """Reported reasons of pods are outdated: they name claims that hold no devices any more."""

    pods: Sequence[QueuedPod]


class QuotaChanged(NamedTuple):
    """Quota was freed or taken, or queues changed."""

    changes: QuotaChanges


class SharesChanged(NamedTuple):
    """Shares changed, so that other pods may be evicted for pods of a queue system."""

    policy: QueuePolicy


class SearchEnded(NamedTuple):
    """A search for devices in the background found devices, or was the last search for the demand."""

    demand: DeviceDemand


class PodBound(NamedTuple):
    """A pod was bound, so that it may be evicted from now on."""


POD_BOUND: Final = PodBound()

Event = ObjectChanged | PodsReady | ReasonsOutdated | QuotaChanged | SharesChanged | SearchEnded | PodBound


class ObjectWaits:
    """The pods that wait for single objects: an index in both directions, by object and by pod uid."""

    def __init__(self) -> None:
        self._pods: dict[ObjectRef, set[str]] = {}
        self._objects: dict[str, tuple[ObjectRef, ...]] = {}

    def objects(self, uid: str) -> tuple[ObjectRef, ...]:
        return self._objects.get(uid, ())

    def pods(self, waited_for: ObjectRef) -> tuple[str, ...]:
        return tuple(self._pods.get(waited_for, ()))

    def set(self, uid: str, objects: tuple[ObjectRef, ...]) -> None:
        """Notes that the pod waits for these objects and no others."""
        if self._objects.get(uid, ()) == objects:
            return
        self.remove(uid)
        if objects:
            self._objects[uid] = objects
        for waited_for in objects:
            self._pods.setdefault(waited_for, set()).add(uid)

    def add(self, uid: str, objects: tuple[ObjectRef, ...]) -> None:
        if not objects:
            return
        known = self._objects.get(uid, ())
        self._objects[uid] = (*known, *[waited_for for waited_for in objects if waited_for not in known])
        for waited_for in objects:
            self._pods.setdefault(waited_for, set()).add(uid)

    def remove(self, uid: str) -> None:
        for waited_for in self._objects.pop(uid, ()):
            uids = self._pods.get(waited_for)
            if uids is not None:
                uids.discard(uid)
                if not uids:
                    del self._pods[waited_for]


class Hints(Protocol):
    """Tells which entries a change on nodes may help."""

    def move(self, now: float, work: Work) -> None:
        """Moves these entries to the active queue."""

    def note_bound(self) -> None:
        """Notes that a pod was bound since entries were last moved."""

    def attempted(self, entry: WaitEntry) -> None:
        """Notes that a pod of the entry was tried with all changes until now."""


class WaitIndex:
    def __init__(self, state: State, queue: Queue, hints: Hints, retry: Callable[[QueuedPod, float], None]) -> None:
        """`retry` moves a pod to the active queue, unless a plugin keeps it from being tried at all."""
        self._state = state
        self._queue = queue
        self._entries = queue.entries
        self._hints = hints
        self._retry = retry
        self.objects = ObjectWaits()
        self.quota = QuotaWaits(queue.entries, state.queues.reservations.awaits_others)
        self.reclaims = ReclaimWaits()
        self._seen_queues = 0
        """The revision of the queues when the turns of pods were last set."""

    def wake(self, event: Event, now: float) -> None:
        """Tries the pods again that the event may help."""
        match event:
            case PodBound():
                self._hints.note_bound()
            case ObjectChanged(changed):
                if uids := self.objects.pods(changed):
                    self._retry_all(uids, now)
            case PodsReady(uids):
                self._retry_all(uids, now)
            case QuotaChanged(changes):
                self._quota_changed(changes, now)
            case SharesChanged(policy):
                self._shares_changed(policy, now)
            case ReasonsOutdated(pods):
                self._reasons_outdated(pods, now)
            case SearchEnded(demand):
                self._search_ended(demand, now)

    def wake_changed(self, now: float, work: Work) -> None:
        """Tries the pods again that changes of quota and nodes since the last time may help. `work` is the work budget
        for finding the pods that changes of nodes may help."""
        queues = self._state.queues
        if self._seen_queues != queues.revision or self._queue.moved:
            self._take_turns()
        if queues.served:
            self._wake_for_quota(queues, now)
        self._hints.move(now, work)

    def _wake_for_quota(self, queues: Queues, now: float) -> None:
        while (changes := queues.log.pop()) is not None:
            self.wake(QuotaChanged(changes), now)
        while ready := self.quota.pop():
            self._retry_all(ready, now)
        if not self.reclaims.is_checked:
            self._retry_for_evictions(self.reclaims.pop(), now)
        for policy in queues.newly_entitled():
            self.wake(SharesChanged(policy), now)
        queues.sample(now)

    @property
    def is_settled(self) -> bool:
        """Whether all pods that wait to reclaim quota were checked; otherwise `wake_changed` has to be called again."""
        return self.reclaims.is_checked

    def forget_quota(self, uid: str) -> None:
        """Removes a pod that does not wait for quota any more."""
        self.quota.passed(uid)
        self.reclaims.remove(uid)

    def attempted(self, entry: WaitEntry) -> None:
        """Notes that a pod of the entry was tried, so that changes which it caused do not wake it."""
        self._hints.attempted(entry)

    def waiting_for(self, demand: DeviceDemand) -> Iterator[WaitEntry]:
        """Yields the entries of pods with this demand of devices."""
        signed = ((entry, entry.wait.signature) for entry in self._entries)
        return (entry for entry, signature in signed if signature is not None and signature.demand is demand)

    def _retry_all(self, uids: Iterable[str], now: float) -> None:
        for uid in uids:
            if (queued := self._queue.get(uid)) is not None:
                self._retry(queued, now)

    def _retry_for_evictions(self, uids: Sequence[str], now: float) -> None:
        """Tries pods again for which other pods may be evicted now."""
        for uid in uids:
            if (queued := self._queue.get(uid)) is not None and queued.entry is not None:
                queued.entry.reconsider_evictions()
        self._retry_all(uids, now)

    def _quota_changed(self, changes: QuotaChanges, now: float) -> None:
        if changes.kinds:
            # All waiting pods are tried again.
            self.reclaims.clear()
        policies = {policy.label: policy for policy in self._state.queues.policies} if self.reclaims else {}
        for (label, queue), priority in changes.takers.items() if self.reclaims else ():
            self.reclaims.take((label, policies[label].queue(queue).root), queue, priority)
        for root, is_hopeful in changes.roots:
            self.quota.free(root, is_hopeful)
        quotas = {ObjectRef(QUOTA, "", root) for root, _ in changes.roots}
        woken = [uid for quota in quotas for uid in self.objects.pods(quota)]
        self._retry_all((*changes.uids, *self.quota.pop(), *woken), now)
        for entry in self._entries if quotas else ():
            if entry.wait.quota and not quotas.isdisjoint(entry.wait.quota):
                first = entry.first()
                if first is not None and self._state.queues.is_entitled(first.pod):
                    self._entries.move_to_active(entry, now)

    def _shares_changed(self, policy: QueuePolicy, now: float) -> None:
        order = policy.order
        for entry in self._entries:
            first = entry.first()
            if first is None or order is None or policy.member(first.pod) is None:
                continue
            if order.is_entitled(first.pod):
                self._entries.move_to_active(entry, now)

    def _reasons_outdated(self, pods: Iterable[QueuedPod], now: float) -> None:
        for queued in pods:
            if queued.entry is not None:
                self._entries.outdate(queued.entry)
            self._retry(queued, now)

    def _search_ended(self, demand: DeviceDemand, now: float) -> None:
        for entry in self.waiting_for(demand):
            self._entries.outdate(entry)
            first = entry.first()
            if first is not None and entry.trying is None:
                self._retry(first, now)

    def _take_turns(self) -> None:
        """Sets the turns of pods again, after queues or arrivals of pods changed."""
        queues = self._state.queues
        moved, are_changed = self._queue.pop_moved(), self._seen_queues != queues.revision
        self._seen_queues = queues.revision
        # This wakes pods that wait for quota which is free now.
        queues.refresh()
        for queued in self._queue.all() if are_changed else moved:
            is_known = self._queue.get(queued.pod.uid) is queued
            if is_known and queued.subqueue not in (SubQueue.GATED, SubQueue.IN_FLIGHT):
                self._queue.take_turn(queued, queues.wait(queued.pod, queued.arrival))
