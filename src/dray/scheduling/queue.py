"""Who is tried next, and who waits for what.

A pod is *active* (ordered by priority, then by arrival), *delayed* after an error, *gated* until a claim or the pod
itself changes, or *parked* because nothing suits it. Parked pods that are alike form a group. When something changes
that may help a group, only its first pod is tried; if that finds a place, the next one is. So a thousand pods that wait
for the same devices cost as much as one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final

from dray.scheduling.model import Pod
from dray.scheduling.standings import Kind

FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 10.0
FLUSH_AFTER: Final = 300.0
_SPARE_TIMERS: Final = 64


class Place(Enum):
    ACTIVE = "active"
    DELAYED = "backoff"
    GATED = "gated"
    PARKED = "unschedulable"
    FLYING = "in flight"
    """Decided, and being written."""


@dataclass(eq=False, slots=True)
class Waiting:
    pod: Pod
    arrival: int
    added: float
    place: Place = Place.GATED
    attempts: int = 0
    errors: int = 0
    group: Group | None = None
    said: str = ""
    """What was last written about why it waits."""


@dataclass(eq=False, slots=True)
class Group:
    """Parked pods that are alike. `trying` is the one that is not parked at the moment."""

    key: Hashable
    kind: Kind | None
    """None where only this one pod is like that."""
    nodes: frozenset[int] | None = None
    """Where it could be, if not anywhere."""
    social: bool = False
    members: dict[str, Waiting] = field(default_factory=dict)
    order: list[tuple[int, str]] = field(default_factory=list)
    trying: Waiting | None = None
    failures: int = 0
    not_before: float = 0.0
    alarm: float = 0.0
    """When a timer rings for it; of several only the earliest is kept."""
    message: str = ""
    futile: bool = False
    """Whether nobody could be removed for the sake of the last one that was tried."""
    unsettled: bool = False
    """Whether there may be somebody to remove once those that are being bound are bound."""

    def first(self) -> Waiting | None:
        while self.order:
            waiting = self.members.get(self.order[0][1])
            if waiting is not None:
                return waiting
            heappop(self.order)
        return None


def delay(failures: int) -> float:
    """Seconds until the next try after so many failures in a row."""
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 20))


class Queue:
    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._active: list[tuple[int, int, str]] = []
        self._timers: list[tuple[float, int, Waiting | Group]] = []
        self._groups: dict[Hashable, Group] = {}
        self._hasty: dict[Hashable, Group] = {}
        """Those that seem to have a place now, though it is not their time yet."""
        self._arrivals = 0
        self._ticket = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, uid: str) -> Waiting | None:
        return self._waiting.get(uid)

    def groups(self) -> Iterable[Group]:
        return list(self._groups.values())

    def counts(self) -> dict[Place, int]:
        counts = dict.fromkeys(Place, 0)
        for waiting in self._waiting.values():
            counts[waiting.place] += 1
        return counts

    def add(self, pod: Pod, now: float) -> Waiting:
        """It is gated until somebody says otherwise."""
        self._arrivals += 1
        waiting = self._waiting[pod.uid] = Waiting(pod, self._arrivals, now)
        return waiting

    def remove(self, uid: str, now: float) -> Waiting | None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            self._leave(waiting, now)
        return waiting

    def activate(self, waiting: Waiting, now: float) -> None:
        """To be tried as soon as its turn comes."""
        if waiting.place in (Place.ACTIVE, Place.FLYING):
            return
        if waiting.place is Place.PARKED and waiting.group is not None:
            waiting.group.members.pop(waiting.pod.uid, None)
            self._end(waiting)
        waiting.place = Place.ACTIVE
        heappush(self._active, (-waiting.pod.priority, waiting.arrival, waiting.pod.uid))

    def gate(self, waiting: Waiting, now: float) -> None:
        self._leave(waiting, now)
        waiting.place = Place.GATED

    def delay(self, waiting: Waiting, now: float) -> None:
        """After an error: later, the more often it happened."""
        self._leave(waiting, now)
        waiting.errors += 1
        waiting.place = Place.DELAYED
        self._at(now + delay(waiting.errors), waiting)

    def fly(self, waiting: Waiting, now: float) -> None:
        """A place was found. Others of its group may find one too."""
        waiting.place = Place.FLYING
        group = waiting.group
        if group is not None and group.trying is waiting:
            group.failures = 0
            group.not_before = now
        self._leave(waiting, now)
        waiting.place = Place.FLYING

    def land(self, waiting: Waiting, now: float) -> None:
        """It could not be written: to be tried again, after a while."""
        if self._waiting.get(waiting.pod.uid) is waiting:
            self.delay(waiting, now)

    def park(
        self,
        waiting: Waiting,
        key: Hashable,
        kind: Kind | None,
        message: str,
        now: float,
        *,
        nodes: frozenset[int] | None = None,
        social: bool = False,
        error: bool = False,
    ) -> None:
        """After an error it is not known what would help: then it is also tried again after a while."""
        group = self._groups.get(key)
        if waiting.group is not None and waiting.group is not group:
            self._leave(waiting, now)
        if group is None:
            group = self._groups[key] = Group(key, kind)
            group.trying = waiting
        group.nodes, group.social, group.message = nodes, social, message
        # Others that come to it say nothing about how often it was tried in vain.
        if group.trying is waiting:
            group.trying = None
            group.failures += 1
            group.not_before = now + delay(group.failures)
        waiting.place, waiting.group = Place.PARKED, group
        waiting.errors = 0
        group.members[waiting.pod.uid] = waiting
        heappush(group.order, (waiting.arrival, waiting.pod.uid))
        self._alarm(group, now + (delay(group.failures) if error else FLUSH_AFTER), now)

    def known(self, key: Hashable) -> Group | None:
        """The group, if pods of it are parked and none is being tried."""
        group = self._groups.get(key)
        return group if group is not None and group.members and group.trying is None else None

    def wake(self, group: Group, now: float) -> None:
        """Something changed that may help."""
        if group.trying is not None or not group.members:
            return
        if now < group.not_before:
            self._alarm(group, group.not_before, now)
            return
        self._try_first(group)

    def hurry(self, group: Group) -> None:
        """It need not wait its time where those who would be tried before it, and take its place, are less urgent."""
        if group.trying is None and group.members:
            self._hasty[group.key] = group

    def _try_first(self, group: Group) -> None:
        self._hasty.pop(group.key, None)
        first = group.first()
        if first is None:
            return
        del group.members[first.pod.uid]
        group.trying = first
        first.place = Place.ACTIVE
        heappush(self._active, (-first.pod.priority, first.arrival, first.pod.uid))

    def pop(self, now: float) -> Waiting | None:
        self._ring(now)
        while self._active:
            if self._hasty:
                self._let_ahead(-self._active[0][0])
            _, _, uid = heappop(self._active)
            waiting = self._waiting.get(uid)
            if waiting is not None and waiting.place is Place.ACTIVE:
                waiting.attempts += 1
                return waiting
        return None

    def _let_ahead(self, priority: int) -> None:
        """Those in haste that are more urgent than that."""
        for group in list(self._hasty.values()):
            first = group.first() if group.trying is None else None
            if first is None:
                del self._hasty[group.key]
            elif first.pod.priority > priority:
                self._try_first(group)

    def due(self) -> float | None:
        """When to look again although nothing happened."""
        return self._timers[0][0] if self._timers else None

    def _ring(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            _, _, whom = heappop(self._timers)
            if not self._matters(whom):
                continue
            if isinstance(whom, Group):
                self.wake(whom, now)
            else:
                self.activate(whom, now)

    def _alarm(self, group: Group, when: float, now: float) -> None:
        if not now < group.alarm <= when:
            group.alarm = when
            self._at(when, group)

    def _at(self, when: float, whom: Waiting | Group) -> None:
        self._ticket += 1
        heappush(self._timers, (when, self._ticket, whom))
        # Pods that are gone would stay until their time comes.
        if len(self._timers) > _SPARE_TIMERS + 2 * (len(self._waiting) + len(self._groups)):
            self._timers = [timer for timer in self._timers if self._matters(timer[2])]
            heapify(self._timers)

    def _matters(self, whom: Waiting | Group) -> bool:
        if isinstance(whom, Group):
            return self._groups.get(whom.key) is whom
        return whom.place is Place.DELAYED and self._waiting.get(whom.pod.uid) is whom

    def _leave(self, waiting: Waiting, now: float) -> None:
        """Takes a pod out of its group; the next one of it may be tried."""
        group = waiting.group
        if group is None:
            return
        waiting.group = None
        group.members.pop(waiting.pod.uid, None)
        if group.trying is waiting:
            group.trying = None
            if group.members:
                self.wake(group, now)
        if not group.members and group.trying is None:
            self._groups.pop(group.key, None)

    def _end(self, waiting: Waiting) -> None:
        group = waiting.group
        waiting.group = None
        if group is not None and not group.members and group.trying is None:
            self._groups.pop(group.key, None)
