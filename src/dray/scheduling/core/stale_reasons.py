"""Stale reasons: waiting pods whose reason names a claim that holds no devices any more.

A pod is tried again when devices that it could use become free. If another pod takes them first, the reason would go on
naming the former holder. `pop` gives those pods a fresh attempt, a few at a time and only now and then, so that many
waiting pods cost little. Pods of one signature share the diagnosis of the first one that is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dray.allocation import Rejection
from dray.allocation import reasons as r
from dray.api.objects import Key
from dray.scheduling.core.queue import Queue, QueuedPod, SubQueue
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis

_PAUSE: Final = 2.0
_MOST: Final = 20
"""Pods that are refreshed at a time."""


class StaleReasons:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._gone: set[Key] = set()
        """Claims that released their devices since the last look."""
        self._left: list[str] = []
        """The uids of pods that are still to be refreshed."""
        self._not_before = 0.0

    def released(self, claim: Key, now: float) -> None:
        """Records that the claim holds no devices any more, or is gone."""
        if not self._gone and not self._left:
            # Pods that fit now are tried at once; their reasons need no refresh.
            self._not_before = max(self._not_before, now + _PAUSE / 2)
        self._gone.add(claim)

    def due(self) -> float | None:
        return self._not_before if self._gone or self._left else None

    def pop(self, now: float) -> list[QueuedPod]:
        """Returns the pods to try again; an empty list if none is due yet."""
        due = self.due()
        if due is None or now < due:
            return []
        self._not_before = now + _PAUSE
        if not self._left:
            gone, self._gone = self._gone, set()
            self._left = self._naming(gone)
        taken, self._left = self._left[:_MOST], self._left[_MOST:]
        found = [queued for uid in taken if (queued := self._queue.get(uid)) is not None]
        return [queued for queued in found if queued.subqueue is SubQueue.UNSCHEDULABLE]

    def _naming(self, claims: set[Key]) -> list[str]:
        """Returns the pods, by uid, whose reason names one of the claims."""
        # Pods that wait together share a rejection: 10,000 of them cost 3 ms, and 30 ms if each were looked at.
        names: dict[int, bool] = {}
        found = []
        for queued in self._queue.all():
            rejection = _nearest(queued.reported)
            if rejection is None or queued.subqueue is not SubQueue.UNSCHEDULABLE:
                continue
            if id(rejection) not in names:
                names[id(rejection)] = not claims.isdisjoint(_holders(rejection))
            if names[id(rejection)]:
                found.append(queued.pod.uid)
        return found

    def clock_set(self, seconds: float) -> None:
        self._not_before += seconds


def _nearest(diagnosis: Diagnosis | GroupDiagnosis | None) -> Rejection | None:
    """Returns the rejection that a reason tells about, which may name holders of devices."""
    if isinstance(diagnosis, GroupDiagnosis):
        diagnosis = diagnosis.following
    return diagnosis.nearest if diagnosis is not None else None


def _holders(rejection: Rejection) -> Iterator[Key]:
    yield from rejection.to_free or ()
    causes: Iterable[r.Cause] = (fallen.cause for request in rejection.requests for fallen in request.fallen)
    for cause in causes:
        if isinstance(cause, r.InUse | r.CapacityUsed):
            yield from cause.owners
