"""ReservedPlaces: reserves a place for a large group, so that small pods do not keep it waiting for ever.

A single pod that wants several devices counts as such a group too. Of the groups that do not fit, the one with the
highest priority, then the one that waits longest, gets a reservation once newer pods of no higher priority were placed
before it. While pods end there, pods of lower or equal priority cannot use the reserved resources. They may use what
the group leaves over, and the reserved resources if they end before the group can start (`backfill`). After a limited
time the reservation is dropped and the group moves behind the others. The next reservation lasts twice as long, up to a
limit, so that a group starts at last even if pods run long and their ends are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from dray.api.times import text_of
from dray.scheduling.core.nominations import Nominations
from dray.scheduling.model.group import POD, Group, GroupKey
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import Code
from dray.scheduling.model.status import Status
from dray.scheduling.reservations import backfill
from dray.scheduling.reservations.place_search import PlaceSearchResult
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import QueuedPod

_PATIENCE: Final = 30.0
"""How many seconds a group waits before a place is reserved for it."""
_RENEWAL: Final = 5.0
"""The number of seconds after which another place may be chosen."""
_MOST_TIMES: Final = 8
"""The longest reservation, as a multiple of the first one."""
_DAY: Final = 86_400.0
_LOOK: Final = 1.0
"""The number of seconds between checks whether a single pod is due, which no event may wake."""
_MOST_WAITING: Final = 256
"""The maximum number of waiting groups with which further single pods are added."""


@dataclass(slots=True)
class _Waiting:
    """A waiting group that does not fit."""

    group: Group
    priority: int
    arrival: int
    since: float
    failures: int = 0
    not_before: float = 0.0
    """The time until which it is the turn of others."""
    uids: set[str] = field(default_factory=set)
    """The uids of its pods that wait."""
    awaits_binding: bool = False
    """Whether a place may be found once pods are bound that are being bound."""

    @property
    def rank(self) -> tuple[int, float, int]:
        return -self.priority, self.since, self.arrival


@dataclass(slots=True)
class _Reservation:
    waiting: _Waiting
    since: float
    until: float
    shadow: float
    renewed: float
    nodes: frozenset[str] = frozenset()
    uids: set[str] = field(default_factory=set)
    """The uids of the pods that have a place."""


class ReservedPlaces:
    def __init__(self, nominations: Nominations, queue: Queue, limit: float) -> None:
        """`limit` is the number of seconds that the first reservation lasts; 0: no reservations."""
        self._nominations = nominations
        self._queue = queue
        self._limit = limit
        self.waiting: dict[GroupKey, _Waiting] = {}
        """The groups that wait and do not fit."""
        self._pods: dict[str, _Waiting] = {}
        """The waiting groups by the uids of their pods."""
        self._reservation: _Reservation | None = None
        self._looked = -inf
        self._latest: dict[int, int] = {}
        """The arrival of the newest pod that got a place while groups waited, by priority."""
        self.begun = 0
        """The number of reservations so far."""
        self.given_up = 0
        """The number of reservations that ended without success."""

    def clock_set(self, seconds: float) -> None:
        """Shifts all times, after the clock was set forward by a number of seconds."""
        self._looked += seconds
        for waiting in self.waiting.values():
            waiting.since += seconds
            waiting.not_before += seconds
        if (reservation := self._reservation) is not None:
            reservation.since += seconds
            reservation.until += seconds
            reservation.shadow += seconds
            reservation.renewed += seconds

    @property
    def active(self) -> bool:
        """Whether a place is reserved for a group."""
        return self._reservation is not None

    # Groups that wait

    def refused(self, group: Group, queued: Sequence[QueuedPod], now: float) -> bool:
        """Notes that there is no room for the group; returns whether to search for a place that will be free."""
        if not self._limit:
            return False
        first = queued[0]
        known = self.waiting.get(group.key)
        if known is None:
            if group.key.kind == POD and len(self.waiting) >= _MOST_WAITING:
                return False
            known = self.waiting[group.key] = _Waiting(group, first.pod.priority, first.arrival, now)
        known.group, known.priority = group, first.pod.priority
        known.uids = {member.pod.uid for member in queued}
        self._pods.update(dict.fromkeys(known.uids, known))
        reservation = self._reservation
        if reservation is not None and reservation.waiting is known:
            return now >= reservation.renewed + _RENEWAL
        if reservation is not None and reservation.waiting.priority >= known.priority:
            return False
        return self._is_due(known, now) and all(
            known is other or known.rank < other.rank for other in self.waiting.values() if self._is_due(other, now)
        )

    def _is_due(self, waiting: _Waiting, now: float) -> bool:
        if now < max(waiting.since + _PATIENCE, waiting.not_before):
            return False
        return any(
            priority <= waiting.priority and arrival > waiting.arrival for priority, arrival in self._latest.items()
        )

    def due_pod(self, now: float) -> str:
        """Returns the uid of a pod by itself whose turn it is to have a place kept: unlike groups it is not tried again
        whenever something changes."""
        if not self.waiting or now < self._looked + _LOOK:
            return ""
        self._looked = now
        due = [waiting for waiting in self.waiting.values() if self._is_due(waiting, now)]
        first = min(due, key=lambda waiting: waiting.rank, default=None)
        if first is None or first.group.key.kind != POD:
            return ""
        if self._reservation is not None and self._reservation.waiting.priority >= first.priority:
            return ""
        return first.group.uid

    def note_placed(self, queued: QueuedPod) -> None:
        """Notes that a pod was placed while groups wait."""
        priority = queued.pod.priority
        self._latest[priority] = max(self._latest.get(priority, 0), queued.arrival)

    def forget(self, key: GroupKey) -> None:
        """Removes a group that was placed or does not wait any more."""
        known = self.waiting.pop(key, None)
        for uid in known.uids if known is not None else ():
            self._pods.pop(uid, None)
        if not self.waiting:
            self._latest.clear()
        if self._reservation is not None and self._reservation.waiting.group.key == key:
            self._end()
        if known is not None and key.kind == POD:
            self._queue.remove_group(key)

    def pod_removed(self, pod: Pod) -> None:
        """Notes that a pod of a group does not wait any more. If it had a reserved place, the reservation of its group
        ends. A group without pods is removed."""
        if self._reservation is not None and pod.uid in self._reservation.uids:
            self._end()
        waiting = self._pods.pop(pod.uid, None)
        if waiting is not None:
            waiting.uids.discard(pod.uid)
            if not waiting.uids:
                self.forget(waiting.group.key)

    # The reservation

    def awaits_binding(self, key: GroupKey) -> bool:
        return key in self.waiting and self.waiting[key].awaits_binding

    def keep(self, group: Group, queued: Iterable[QueuedPod], result: PlaceSearchResult, now: float) -> None:
        """Keeps the place that a search found for pods of the group; ends the reservation if there is none."""
        waiting, before, found = self.waiting[group.key], self._reservation, result.found
        if before is not None and before.waiting is not waiting:
            self._end()
            before = None
        waiting.awaits_binding = found is None and result.awaits_binding
        if found is None:
            if before is not None:
                before.renewed = now
            if not result.awaits_binding:
                # The group does not fit whichever pods end, so nothing is reserved.
                waiting.not_before = now + self._limit
                self._end()
            return
        if before is None:
            self.begun += 1
            before = self._reservation = _Reservation(
                waiting, now, self._end_of(waiting, found.shadow, now), found.shadow, now
            )
        before.shadow, before.renewed = found.shadow, now
        pods = {member.pod.uid: member.pod for member in queued}
        for uid in before.uids - found.places.keys():
            self._nominations.drop(uid, reserved=True)
        self._nominations.keep({pods[uid]: place for uid, place in found.places.items()}, reserved=True)
        before.uids, before.nodes = set(found.places), frozenset(place.node for place in found.places.values())

    def _end_of(self, waiting: _Waiting, shadow: float, now: float) -> float:
        """Returns until when a place is kept: until it is free if that time is known, for a day at most."""
        kept = self._limit * min(_MOST_TIMES, 1 << min(waiting.failures, _MOST_TIMES))
        return max(now + kept, min(shadow + _PATIENCE, now + _DAY) if shadow < inf else now)

    def near(self, key: GroupKey) -> frozenset[str]:
        """Returns the nodes of the place that is reserved for the group."""
        reservation = self._reservation
        return reservation.nodes if reservation is not None and reservation.waiting.group.key == key else frozenset()

    def expire(self, now: float) -> None:
        reservation = self._reservation
        if reservation is None or now < reservation.until:
            return
        waiting = reservation.waiting
        self.given_up += 1
        waiting.failures += 1
        # Other groups get as much time as this group had.
        waiting.not_before = now + reservation.until - reservation.since
        waiting.since = now
        self._end()
        self._queue.postpone(waiting.group.key, reservation.uids, now, 0.0)
        waiting.arrival = self._queue.arrive(waiting.group.key)

    def due(self) -> float | None:
        return self._reservation.until if self._reservation is not None else None

    def _end(self) -> None:
        reservation, self._reservation = self._reservation, None
        for uid in reservation.uids if reservation is not None else ():
            self._nominations.drop(uid, reserved=True)

    # Others

    def lets_pass(self, pods: Iterable[Pod], now: float) -> bool:
        """Whether the pods end before the group could start."""
        reservation = self._reservation
        if reservation is None:
            return True
        end = now + max(map(backfill.run_time, pods))
        return backfill.may_start(end, reservation.shadow, size=1, extra=0)

    def status(self) -> Status:
        """Returns why other pods cannot use the reserved place."""
        assert self._reservation is not None
        reservation = self._reservation
        key = reservation.waiting.group.key
        title = f"{'pod' if key.kind == POD else 'PodGroup'} {key.title}"
        return Status.of("ReservedPlaces", Code.PLACE_RESERVED, title, text_of(reservation.until))

    def period(self, key: GroupKey) -> tuple[str, str] | None:
        """Returns since when a place is reserved for the group, and until when at most; None if there is none."""
        reservation = self._reservation
        if reservation is None or reservation.waiting.group.key != key:
            return None
        return text_of(reservation.since), text_of(reservation.until)
