"""Queue: the pods that wait, and which of them is tried next.

A pod is *active* (ordered by priority, then by creation), in *backoff* after an error, *gated* until a claim or the pod
itself changes, or *unschedulable* because no node suits it; then `entries` has what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from dray.api.times import seconds_of
from dray.scheduling.model import faults
from dray.scheduling.model.faults import Report
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import Diagnosis
from dray.scheduling.quota.turns import Entry, Turn, Turns
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue, Wait, WaitEntry
from dray.scheduling.waiting.wait_entries import Timers, WaitEntries, backoff

_STAGE: Final = 1 << 80
"""A number greater than any arrival."""
_SECOND: Final = 1 << 30
"""The number of places for one second; pods that were created in the same second are ordered as they were seen."""


class Queue:
    def __init__(self, report: Report = faults.ignore, stage: Callable[[Pod], int] = lambda _: 0) -> None:
        """`report` is called with unexpected errors. `stage` is 0 for most pods; of pods with equal priority, those of
        a higher stage are tried later. The stage of a pod may change while it waits."""
        self._report = report
        self._stage = stage
        self._queued: dict[str, QueuedPod] = {}
        self._active: list[tuple[int, int, str]] = []
        self._arrivals = Arrivals()
        self._timers = Timers(self._matters, lambda: len(self._queued) + len(self.entries))
        self.entries = WaitEntries(self._push, self._place_of, self._timers)
        self.moved: list[QueuedPod] = []
        """Pods whose arrival changed, and their queue systems do not know yet."""

    def __len__(self) -> int:
        return len(self._queued)

    def get(self, uid: str) -> QueuedPod | None:
        return self._queued.get(uid)

    def all(self) -> Iterable[QueuedPod]:
        return list(self._queued.values())

    def counts(self) -> dict[SubQueue, int]:
        counts = dict.fromkeys(SubQueue, 0)
        for queued in self._queued.values():
            counts[queued.subqueue] += 1
        return counts

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """Adds a pod, which is gated until it is activated."""
        queued = self._queued[pod.uid] = QueuedPod(pod, self.arrive(pod.group, pod.created), now)
        return queued

    def replace(self, queued: QueuedPod, pod: Pod) -> None:
        """Takes the new version of a waiting pod."""
        queued.pod = pod

    def remove(self, uid: str, now: float) -> QueuedPod | None:
        queued = self._queued.pop(uid, None)
        if queued is not None and queued.entry is not None:
            self.entries.remove(queued, now)
        return queued

    # The order of arrival

    def arrive(self, group: Hashable = None, created: str = "") -> int:
        """Returns the place in the order of arrival; the place of the group if it has one."""
        return self._arrivals.of(group, created)

    def put_group(
        self, group: Hashable, members: Iterable[str], top: Hashable, created: str = "", *, by_pods: bool = False
    ) -> None:
        """Orders the pods of a group by the creation time of the root of its tree, `top`, which may be later than that
        of the pods. With `by_pods`, the pod of the tree that was created first decides."""
        arrival = self._arrivals.put_group(group, top, created, by_pods=by_pods)
        if arrival is not None:
            self._move(members, arrival)

    def remove_group(self, group: Hashable) -> None:
        self._arrivals.remove_group(group)

    def postpone(self, group: Hashable, members: Iterable[str], now: float, patience: float) -> None:
        """Notes that a group could not be placed. After `patience` seconds, it moves behind all others."""
        arrival = self._arrivals.postpone(group, now, patience)
        if arrival is not None:
            self._move(members, arrival)

    def _move(self, members: Iterable[str], arrival: int) -> None:
        for uid in members:
            queued = self._queued.get(uid)
            if queued is not None and queued.arrival != arrival:
                queued.arrival = arrival
                self.moved.append(queued)
                if queued.subqueue is SubQueue.ACTIVE:
                    self._push(queued)

    def pop_moved(self) -> list[QueuedPod]:
        """Returns the pods whose arrival changed since the last call."""
        moved, self.moved = self.moved, []
        return moved

    # Single pods

    def activate(self, queued: QueuedPod, now: float) -> None:
        """Moves the pod to the active pods."""
        if queued.subqueue in (SubQueue.ACTIVE, SubQueue.IN_FLIGHT):
            return
        if queued.subqueue is SubQueue.UNSCHEDULABLE:
            self.entries.pick(queued)
        self._push(queued)

    def _push(self, queued: QueuedPod) -> None:
        queued.subqueue = SubQueue.ACTIVE
        place = self._place_of(queued)
        heappush(self._active, (-queued.pod.priority, place, queued.pod.uid))
        if queued.turn is not None:
            turns, lane, priority = queued.turn
            turns.push(lane, (-priority, place, queued.pod.uid))

    def _place_of(self, queued: QueuedPod) -> int:
        """Returns the place among pods of one priority: by stage, then by arrival."""
        pod = queued.pod
        return queued.arrival if pod.group is None else queued.arrival + self._stage(pod) * _STAGE

    def try_again(self, queued: QueuedPod, now: float) -> None:
        """Moves the pod to the active pods again, after others that it was tried with were placed."""
        self.entries.remove(queued, now)
        self._push(queued)

    def take_turn(self, queued: QueuedPod, turn: Turn | None) -> None:
        """Sets the turn that the pod waits for."""
        if turn != queued.turn:
            queued.turn = turn
            if queued.subqueue is SubQueue.ACTIVE:
                self._push(queued)

    def gate(self, queued: QueuedPod, now: float) -> None:
        self.entries.remove(queued, now)
        queued.subqueue = SubQueue.GATED

    def back_off(self, queued: QueuedPod, now: float) -> None:
        """Retries the pod after a backoff, which grows with the number of errors."""
        self.entries.remove(queued, now)
        queued.errors += 1
        queued.subqueue = SubQueue.BACKOFF
        self._timers.at(now + backoff(queued.errors), queued)

    def start_binding(self, queued: QueuedPod, now: float) -> None:
        """Notes that a node was found for the pod, which is being bound."""
        queued.subqueue = SubQueue.IN_FLIGHT
        if queued.entry is not None:
            self.entries.placed(queued, now)

    def retry(self, queued: QueuedPod, now: float) -> None:
        """Retries a pod whose binding failed, after a backoff."""
        if self._queued.get(queued.pod.uid) is queued:
            self.back_off(queued, now)

    def add_unschedulable(self, queued: QueuedPod, diagnosis: Diagnosis | None, wait: Wait, now: float) -> None:
        """Adds a refused pod to the entry of what it waits for."""
        queued.entry = self.entries.add(queued, diagnosis, wait, now)
        queued.subqueue = SubQueue.UNSCHEDULABLE
        queued.errors = 0

    # The next pod

    def pop(self, now: float) -> QueuedPod | None:
        self._run_timers(now)
        while self._active:
            if self.entries.ahead:
                self.entries.activate_ahead(-self._active[0][0])
            entry = heappop(self._active)
            queued = self._queued.get(entry[2])
            if queued is not None and queued.subqueue is SubQueue.ACTIVE and queued.arrival == entry[1] % _STAGE:
                # Only pods of groups have a stage, which may have changed.
                if queued.pod.group is not None and (place := self._place_of(queued)) > entry[1]:
                    heappush(self._active, (entry[0], place, entry[2]))
                    continue
                if queued.turn is not None:
                    queued = self._in_turn(queued, entry, queued.turn.turns)
                queued.attempts += 1
                return queued
        return None

    def more_urgent(self, priority: int) -> Iterator[Pod]:
        """Yields active pods of a higher priority. They are tried later if queues take turns."""
        left = [0]
        while left:
            number = left.pop()
            if number < len(self._active) and -self._active[number][0] > priority:
                queued = self._queued.get(self._active[number][2])
                if queued is not None and queued.subqueue is SubQueue.ACTIVE:
                    yield queued.pod
                # The active pods are a heap: those below a place in it come later.
                left += (2 * number + 1, 2 * number + 2)

    def _in_turn(self, queued: QueuedPod, entry: Entry, turns: Turns) -> QueuedPod:
        """Returns the pod whose turn it is. If that is another pod, `queued` keeps its place among all pods."""
        try:
            first = self._queued.get(turns.next(self._active_in))
        except Exception as error:
            # The pod is tried as if there were no queues.
            self._report("choosing whose turn it is", error)
            first = None
        if first is None or first is queued:
            return queued
        heappush(self._active, entry)
        return first

    def _active_in(self, lane: str, entry: Entry) -> Pod | None:
        queued = self._queued.get(entry[2])
        if queued is None or queued.subqueue is not SubQueue.ACTIVE or queued.turn is None or queued.turn.lane != lane:
            return None
        pod = queued.pod
        # Only pods of groups have a stage, which may have changed.
        if (
            pod.group is not None
            and queued.arrival == entry[1] % _STAGE
            and (place := self._place_of(queued)) > entry[1]
        ):
            queued.turn.turns.push(lane, (entry[0], place, entry[2]))
            return None
        return pod

    # Time

    def due(self) -> float | None:
        """Returns the time when a pod is retried even if nothing happens; None if there is none."""
        return self._timers.due()

    def clock_set(self, seconds: float) -> None:
        """Shifts all times, after the clock was set by a number of seconds."""
        self._timers.clock_set(seconds)
        self._arrivals.clock_set(seconds)
        self.entries.clock_set(seconds)
        for queued in self._queued.values():
            queued.added += seconds

    def _run_timers(self, now: float) -> None:
        while (due := self._timers.pop(now)) is not None:
            if isinstance(due, WaitEntry):
                self.entries.move_to_active(due, now)
            else:
                self.activate(due, now)

    def _matters(self, what: QueuedPod | WaitEntry) -> bool:
        if isinstance(what, WaitEntry):
            return what in self.entries
        return what.subqueue is SubQueue.BACKOFF and self._queued.get(what.pod.uid) is what


class Arrivals:
    """The order in which pods of one priority are tried, by creation time, then in the order they were seen.

    All pods of a group have the same place in the order: that of the root of its tree, or of the first pod of the tree.
    """

    def __init__(self) -> None:
        self._number = 0
        self._latest = 0
        """The creation time of the youngest pod or group that was seen, in seconds."""
        self._groups: dict[Hashable, int] = {}
        self._by_pods: dict[Hashable, Hashable] = {}
        """The groups whose first pod decides, each with the root of its tree; their place is that of the root."""
        self._seen: dict[Hashable, int] = {}
        """The place for pods of such a tree that do not say when they were created, by root."""
        self._waiting_since: dict[Hashable, float] = {}
        """The time since which a group could not be placed, by group."""

    def of(self, group: Hashable = None, created: str = "") -> int:
        """Returns the place of a pod or group; the place of the group if it has one."""
        seconds = seconds_of(created)
        if group is None:
            return self._next(seconds)
        top = self._by_pods.get(group)
        known = self._groups.get(group if top is None else top)
        if known is not None and (top is None or seconds is None or seconds >= known // _SECOND):
            return known
        arrival = self._seen.get(top) if top is not None and seconds is None else None
        if arrival is None:
            arrival = self._next(seconds)
        if top is not None:
            self._groups[top] = arrival
        return arrival

    def _next(self, seconds: float | None = None) -> int:
        """Returns a place by creation time; a place behind all others if the time is not known."""
        created = max(0, int(seconds)) if seconds is not None else self._latest
        self._latest = max(self._latest, created)
        self._number += 1
        return created * _SECOND + self._number

    def put_group(self, group: Hashable, top: Hashable, created: str, *, by_pods: bool) -> int | None:
        """Sets and returns the place of a group; None if its first pod will decide. `created` is the time of the root
        of its tree, or of its first pod."""
        if by_pods:
            self._by_pods[group] = top
            if top not in self._seen:
                self._seen[top] = self._next()
            return self.of(group, created) if created else self._groups.get(top)
        self._by_pods.pop(group, None)
        arrival = self._groups[top] = self._groups[group] = self.of(top, created)
        return arrival

    def remove_group(self, group: Hashable) -> None:
        self._groups.pop(group, None)
        self._by_pods.pop(group, None)
        self._seen.pop(group, None)
        self._waiting_since.pop(group, None)

    def postpone(self, group: Hashable, now: float, patience: float) -> int | None:
        """Notes that a group could not be placed. After `patience` seconds, returns its new place behind all others."""
        since = self._waiting_since.setdefault(group, now)
        if now < since + patience:
            return None
        del self._waiting_since[group]
        arrival = self._groups[self._by_pods.get(group, group)] = self._next()
        return arrival

    def clock_set(self, seconds: float) -> None:
        self._waiting_since = {group: since + seconds for group, since in self._waiting_since.items()}
