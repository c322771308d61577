"""Queue: the pods that wait, and which of them is tried next.

A pod is *active* (ordered by priority, then by creation), in *backoff* after an error, *gated* until a claim or the pod
itself changes, or *unschedulable* because no node suits it. Unschedulable pods of one signature form a group. When
something changes that may help a group, only its first pod is tried; if that fits, the next one is. So a thousand pods
that wait for the same devices cost as much as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from dray.api.times import seconds_of
from dray.scheduling.core.feasible_nodes import Signature
from dray.scheduling.model import faults
from dray.scheduling.model.faults import Report
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis
from dray.scheduling.quota.turns import Entry, Turn, Turns
from dray.scheduling.waiting.waits import Wait

INITIAL_BACKOFF: Final = 0.05
MAX_BACKOFF: Final = 10.0
FLUSH_AFTER: Final = 300.0
_SPARE_TIMERS: Final = 64
_SECOND: Final = 1 << 30
"""How many may be created in one second: these are ordered as they were seen."""
_STAGE: Final = 1 << 80
"""More than any arrival."""


class SubQueue(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    GATED = "gated"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    """Decided, and being written."""


@dataclass(eq=False, slots=True)
class QueuedPod:
    pod: Pod
    arrival: int
    """Its place in the order of creation: the same after a restart, which shows pods in the order of their names."""
    added: float
    subqueue: SubQueue = SubQueue.GATED
    attempts: int = 0
    errors: int = 0
    group: SignatureGroup | None = None
    reported: Diagnosis | GroupDiagnosis | None = None
    """What was last written about why it waits."""
    turn: Turn | None = None
    """What it waits for, where queues take turns."""


@dataclass(eq=False, slots=True)
class SignatureGroup:
    """Unschedulable pods of one signature. `trying` is the one that is being tried at the moment."""

    key: Hashable
    signature: Signature | None
    """None where it is not known what would help."""
    nodes: frozenset[int] | None = None
    """Where it could be, if not anywhere."""
    cluster_wide: bool = False
    """Whether pods that come to any node or leave one may help."""
    members: dict[str, QueuedPod] = field(default_factory=dict)
    order: list[tuple[int, str]] = field(default_factory=list)
    trying: QueuedPod | None = None
    failures: int = 0
    not_before: float = 0.0
    timer: float = 0.0
    """When a timer rings for it; of several only the earliest is kept."""
    diagnosis: Diagnosis | None = None
    """None of pods that are placed as a group. That of the last one that was tried."""
    preemption_futile: bool = False
    """Whether nobody could be removed for the sake of the last one that was tried."""
    binding_may_help: bool = False
    """Whether there may be somebody to remove once those that are being bound are bound."""
    waits_for: tuple[ObjectRef, ...] = ()
    """What else would help any of them, when there is more of it."""

    def first(self) -> QueuedPod | None:
        while self.order:
            queued = self.members.get(self.order[0][1])
            if queued is not None:
                return queued
            heappop(self.order)
        return None


def backoff(failures: int) -> float:
    """Seconds until the next try after so many failures in a row."""
    return min(MAX_BACKOFF, INITIAL_BACKOFF * 2.0 ** min(failures - 1, 20))


class Queue:
    def __init__(self, report: Report = faults.ignore, stage: Callable[[Pod], int] = lambda _: 0) -> None:
        """`report` is told of errors that nobody expected. `stage` is 0 for most pods; of equal priority those of a
        higher stage are tried later. It may change while they wait."""
        self._report = report
        self._stage = stage
        self._queued: dict[str, QueuedPod] = {}
        self._active: list[tuple[int, int, str]] = []
        self._timers: list[tuple[float, int, QueuedPod | SignatureGroup]] = []
        self._groups: dict[Hashable, SignatureGroup] = {}
        self._ahead: dict[Hashable, SignatureGroup] = {}
        """Those that seem to fit now, though their backoff is not over yet."""
        self.turned: list[SignatureGroup] = []
        """Groups of queues that take turns, of which a pod has had its turn: others may be before the next one."""
        self.moved: list[QueuedPod] = []
        """Pods that have another arrival than their queue was told."""
        self._arrivals = 0
        self._latest = 0
        """When the youngest that was seen was created, in seconds."""
        self._group_arrivals: dict[Hashable, int] = {}
        self._waiting_since: dict[Hashable, float] = {}
        """Groups that could not be placed, since when."""
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._queued)

    def get(self, uid: str) -> QueuedPod | None:
        return self._queued.get(uid)

    def all(self) -> Iterable[QueuedPod]:
        return list(self._queued.values())

    def groups(self) -> Iterable[SignatureGroup]:
        return list(self._groups.values())

    def counts(self) -> dict[SubQueue, int]:
        counts = dict.fromkeys(SubQueue, 0)
        for queued in self._queued.values():
            counts[queued.subqueue] += 1
        return counts

    def add(self, pod: Pod, now: float) -> QueuedPod:
        """It is gated until it is activated."""
        queued = self._queued[pod.uid] = QueuedPod(pod, self.arrive(pod.group, pod.created), now)
        return queued

    def arrive(self, group: Hashable = None, created: str = "") -> int:
        """The place in the order of creation, then of arrival; that of a group where all its pods have one."""
        known = self._group_arrivals.get(group) if group is not None else None
        return known if known is not None else self._place(seconds_of(created))

    def _place(self, seconds: float | None = None) -> int:
        """Behind all others where it is not known when it was created."""
        created = max(0, int(seconds)) if seconds is not None else self._latest
        self._latest = max(self._latest, created)
        self._arrivals += 1
        return created * _SECOND + self._arrivals

    def put_group(self, group: Hashable, members: Iterable[str], top: Hashable, created: str = "") -> None:
        """Pods of a group, those that came before it too, have their turn by when the group was created, or the one at
        the top of its tree."""
        self._move_group(group, members, top, self.arrive(top, created))

    def _move_group(self, group: Hashable, members: Iterable[str], top: Hashable, arrival: int) -> None:
        self._group_arrivals[top] = self._group_arrivals[group] = arrival
        for uid in members:
            queued = self._queued.get(uid)
            if queued is not None and queued.arrival != arrival:
                queued.arrival = arrival
                self.moved.append(queued)
                if queued.subqueue is SubQueue.ACTIVE:
                    self._push(queued)

    def remove_group(self, group: Hashable) -> None:
        self._group_arrivals.pop(group, None)
        self._waiting_since.pop(group, None)

    def postpone(self, group: Hashable, members: Iterable[str], now: float, patience: float) -> None:
        """A group could not be placed: once that has been so for a while, it goes behind all others."""
        since = self._waiting_since.setdefault(group, now)
        if now >= since + patience:
            del self._waiting_since[group]
            self._move_group(group, members, group, self._place())

    def remove(self, uid: str, now: float) -> QueuedPod | None:
        queued = self._queued.pop(uid, None)
        if queued is not None:
            self._leave(queued, now)
        return queued

    def activate(self, queued: QueuedPod, now: float) -> None:
        """To be tried as soon as its turn comes."""
        if queued.subqueue in (SubQueue.ACTIVE, SubQueue.IN_FLIGHT):
            return
        if queued.subqueue is SubQueue.UNSCHEDULABLE and queued.group is not None:
            queued.group.members.pop(queued.pod.uid, None)
            self._end(queued)
        self._push(queued)

    def _push(self, queued: QueuedPod) -> None:
        queued.subqueue = SubQueue.ACTIVE
        place = self._place_of(queued)
        heappush(self._active, (-queued.pod.priority, place, queued.pod.uid))
        if queued.turn is not None:
            turns, lane, priority = queued.turn
            turns.push(lane, (-priority, place, queued.pod.uid))

    def _place_of(self, queued: QueuedPod) -> int:
        """Among pods of one priority: by stage, then by arrival."""
        return queued.arrival + self._stage(queued.pod) * _STAGE

    def try_again(self, queued: QueuedPod, now: float) -> None:
        """Others that it was tried with have their places: it has its turn among the active pods once more."""
        self._leave(queued, now)
        self._push(queued)

    def take_turn(self, queued: QueuedPod, turn: Turn | None) -> None:
        """The pod waits for another turn than before, or for the same."""
        if turn != queued.turn:
            queued.turn = turn
            if queued.subqueue is SubQueue.ACTIVE:
                self._push(queued)

    def gate(self, queued: QueuedPod, now: float) -> None:
        self._leave(queued, now)
        queued.subqueue = SubQueue.GATED

    def back_off(self, queued: QueuedPod, now: float) -> None:
        """After an error: later, the more often it happened."""
        self._leave(queued, now)
        queued.errors += 1
        queued.subqueue = SubQueue.BACKOFF
        self._at(now + backoff(queued.errors), queued)

    def start_binding(self, queued: QueuedPod, now: float) -> None:
        """A node was found. Others of its group may find one too."""
        queued.subqueue = SubQueue.IN_FLIGHT
        group = queued.group
        if group is not None and group.trying is queued:
            group.failures = 0
            group.not_before = now
        self._leave(queued, now)
        queued.subqueue = SubQueue.IN_FLIGHT

    def retry(self, queued: QueuedPod, now: float) -> None:
        """It could not be written: to be tried again, after a while."""
        if self._queued.get(queued.pod.uid) is queued:
            self.back_off(queued, now)

    def add_unschedulable(self, queued: QueuedPod, diagnosis: Diagnosis | None, wait: Wait, now: float) -> None:
        """Files a refused pod by what it waits for."""
        group = self._groups.get(wait.key)
        if queued.group is not None and queued.group is not group:
            self._leave(queued, now)
        if group is None:
            group = self._groups[wait.key] = SignatureGroup(wait.key, wait.signature)
            group.trying = queued
        group.nodes, group.cluster_wide, group.diagnosis = wait.nodes, wait.cluster_wide, diagnosis
        group.waits_for = wait.quota
        if wait.futile is not None:
            group.preemption_futile = wait.futile
        if wait.binding is not None:
            group.binding_may_help = wait.binding
        # Pods that join the group do not count as further failures of it.
        if group.trying is queued:
            group.trying = None
            group.failures += 1
            group.not_before = now + backoff(group.failures)
        queued.subqueue, queued.group = SubQueue.UNSCHEDULABLE, group
        queued.errors = 0
        group.members[queued.pod.uid] = queued
        heappush(group.order, (self._place_of(queued), queued.pod.uid))
        self._set_timer(group, now + (backoff(group.failures) if wait.error else FLUSH_AFTER), now)
        if wait.at < inf:
            self._set_timer(group, wait.at, now)

    def note_binding(self, queued: QueuedPod, *, may_help: bool) -> None:
        """Notes whether pods that are being bound may be evicted for the pod afterwards."""
        if queued.group is not None:
            queued.group.binding_may_help = may_help

    def known(self, key: Hashable, trying: QueuedPod | None = None) -> SignatureGroup | None:
        """The group, if pods of it wait and none is being tried; or only this one, which has the turn of its queue."""
        group = self._groups.get(key)
        if group is None or not group.members:
            return None
        mine = group.trying is trying and trying is not None and trying.turn is not None
        return group if group.trying is None or mine else None

    def move_to_active(self, group: SignatureGroup, now: float) -> None:
        """Something changed that may help."""
        if group.trying is not None or not group.members:
            return
        if now < group.not_before:
            self._set_timer(group, group.not_before, now)
            return
        self._try_first(group)

    def try_now(self, group: SignatureGroup) -> None:
        """It is its turn, and it seems to fit: whether or not it was tried in vain lately."""
        if group.trying is None and group.members:
            self._try_first(group)

    def let_ahead(self, group: SignatureGroup) -> None:
        """It need not wait for the end of its backoff where those who would be tried before it are less urgent."""
        if group.trying is None and group.members:
            self._ahead[group.key] = group

    def _try_first(self, group: SignatureGroup) -> None:
        self._ahead.pop(group.key, None)
        first = group.first()
        if first is None:
            return
        del group.members[first.pod.uid]
        heappop(group.order)
        group.trying = first
        self._push(first)

    def pop(self, now: float) -> QueuedPod | None:
        self._run_timers(now)
        while self._active:
            if self._ahead:
                self._activate_ahead(-self._active[0][0])
            entry = heappop(self._active)
            queued = self._queued.get(entry[2])
            if queued is not None and queued.subqueue is SubQueue.ACTIVE and queued.arrival == entry[1] % _STAGE:
                if (place := self._place_of(queued)) > entry[1]:
                    heappush(self._active, (entry[0], place, entry[2]))
                    continue
                if queued.turn is not None:
                    queued = self._in_turn(queued, entry, queued.turn.turns)
                queued.attempts += 1
                return queued
        return None

    def _in_turn(self, queued: QueuedPod, entry: Entry, turns: Turns) -> QueuedPod:
        """The pod whose turn it is, of those that wait for theirs; the other one keeps its place among all pods."""
        try:
            first = self._queued.get(turns.next(self._active_in))
        except Exception as error:
            # It has its turn as if there were no queues.
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
        if (place := self._place_of(queued)) > entry[1] and queued.arrival == entry[1] % _STAGE:
            queued.turn.turns.push(lane, (entry[0], place, entry[2]))
            return None
        return queued.pod

    def _activate_ahead(self, priority: int) -> None:
        """Those let ahead that are more urgent than that."""
        for group in list(self._ahead.values()):
            first = group.first() if group.trying is None else None
            if first is None:
                del self._ahead[group.key]
            elif first.pod.priority > priority:
                self._try_first(group)

    def due(self) -> float | None:
        """When to look again although nothing happened."""
        return self._timers[0][0] if self._timers else None

    def clock_set(self, seconds: float) -> None:
        """The clock was set by so many seconds: what is due after a while is due after the same while."""
        self._timers = [(when + seconds, ticket, what) for when, ticket, what in self._timers]
        self._waiting_since = {group: since + seconds for group, since in self._waiting_since.items()}
        for group in self._groups.values():
            group.not_before += seconds
            group.timer += seconds
        for queued in self._queued.values():
            queued.added += seconds

    def _run_timers(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, _, what = heappop(self._timers)
            if not self._matters(what):
                continue
            if isinstance(what, SignatureGroup):
                self.move_to_active(what, now)
            else:
                self.activate(what, now)

    def _set_timer(self, group: SignatureGroup, when: float, now: float) -> None:
        if not now < group.timer <= when:
            group.timer = when
            self._at(when, group)

    def _at(self, when: float, what: QueuedPod | SignatureGroup) -> None:
        self._ticket += 1
        heappush(self._timers, (when, self._ticket, what))
        # Pods that are gone would stay until their time comes.
        if len(self._timers) > _SPARE_TIMERS + 2 * (len(self._queued) + len(self._groups)):
            self._timers = [timer for timer in self._timers if self._matters(timer[2])]
            heapify(self._timers)

    def _matters(self, what: QueuedPod | SignatureGroup) -> bool:
        if isinstance(what, SignatureGroup):
            return self._groups.get(what.key) is what
        return what.subqueue is SubQueue.BACKOFF and self._queued.get(what.pod.uid) is what

    def _leave(self, queued: QueuedPod, now: float) -> None:
        """Takes a pod out of its group; the next one of it may be tried."""
        group = queued.group
        if group is None:
            return
        queued.group = None
        group.members.pop(queued.pod.uid, None)
        if group.trying is queued:
            group.trying = None
            if group.members and queued.turn is not None:
                self.turned.append(group)
            elif group.members:
                self.move_to_active(group, now)
        if not group.members and group.trying is None:
            self._groups.pop(group.key, None)

    def _end(self, queued: QueuedPod) -> None:
        group = queued.group
        queued.group = None
        if group is not None and not group.members and group.trying is None:
            self._groups.pop(group.key, None)
