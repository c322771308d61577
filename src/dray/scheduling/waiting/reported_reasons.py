"""ReportedReasons: the last reported reasons of waiting pods, and which of these reasons are outdated.

A pod is tried again when devices that it could use become free. If another pod takes them first, the reason would go on
naming the former holder. `pop` returns these pods for another attempt, a limited number at intervals, so that many
waiting pods cost little. Pods of one signature share the rejection of the first one that is tried, and reasons are
found by the claims that they name: a claim that is released costs as much as there are reasons that name it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from dray.allocation import Rejection
from dray.allocation import reasons as r
from dray.api.objects import Key
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import QueuedPod, SubQueue

_PAUSE: Final = 2.0
_MOST: Final = 20
"""The maximum number of pods that are refreshed at a time."""


@dataclass(eq=False, slots=True)
class _Reason:
    """A rejection that was reported to pods."""

    rejection: Rejection
    pods: dict[str, None] = field(default_factory=dict)
    """The uids of the pods, in the order of the reports."""


class ReportedReasons:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._reasons: dict[int, _Reason] = {}
        """The reasons by id of the rejection."""
        self._by_pod: dict[str, _Reason] = {}
        """The reason of each pod, by uid."""
        self._by_claim: dict[Key, dict[int, _Reason]] = {}
        """The reasons that name a claim, by claim."""
        self._new: dict[int, _Reason] = {}
        """Reasons that are not in `_by_claim` yet: most are replaced before a claim is released."""
        self._released: set[Key] = set()
        """The claims that released their devices since the last refresh."""
        self._left: deque[str] = deque()
        """The uids of pods that are still to be refreshed."""
        self._not_before = 0.0

    def report(self, queued: QueuedPod, diagnosis: Diagnosis | GroupDiagnosis | None) -> bool:
        """Notes the reported diagnosis of a pod, or None. Returns whether it differs from the last one."""
        return self.report_all((queued,), diagnosis)

    def report_all(self, pods: Iterable[QueuedPod], diagnosis: Diagnosis | GroupDiagnosis | None) -> bool:
        """Notes the reported diagnosis of pods that are placed together. Returns whether it is new for any of them."""
        is_new, rejection = False, _nearest(diagnosis)
        for queued in pods:
            is_new = queued.report(diagnosis) or is_new
            known = self._by_pod.get(queued.pod.uid)
            if rejection is not (known.rejection if known is not None else None):
                self.forget(queued.pod.uid)
                if rejection is not None:
                    self._add(queued.pod.uid, rejection)
        return is_new

    def _add(self, uid: str, rejection: Rejection) -> None:
        reason = self._reasons.get(id(rejection))
        if reason is None:
            reason = self._reasons[id(rejection)] = self._new[id(rejection)] = _Reason(rejection)
        reason.pods[uid] = None
        self._by_pod[uid] = reason

    def forget(self, uid: str) -> None:
        """Drops the reason of a pod that does not wait any more, or waits for another reason."""
        reason = self._by_pod.pop(uid, None)
        if reason is None:
            return
        del reason.pods[uid]
        if not reason.pods:
            number = id(reason.rejection)
            del self._reasons[number]
            if self._new.pop(number, None) is None:
                for claim in _holders(reason.rejection):
                    named = self._by_claim[claim]
                    del named[number]
                    if not named:
                        del self._by_claim[claim]

    def released(self, claim: Key, now: float) -> None:
        """Notes that the claim holds no devices any more, or was deleted."""
        if not self._released and not self._left:
            # Pods that fit now are tried at once; their reasons need no refresh.
            self._not_before = max(self._not_before, now + _PAUSE / 2)
        self._released.add(claim)

    def due(self) -> float | None:
        return self._not_before if self._released or self._left else None

    def pop(self, now: float) -> list[QueuedPod]:
        """Returns the pods to try again; an empty list if none is due yet."""
        if now < self._not_before or not (self._released or self._left):
            return []
        self._not_before = now + _PAUSE
        if not self._left:
            released, self._released = self._released, set()
            self._left.extend(self._naming(released))
        taken = [self._left.popleft() for _ in range(min(_MOST, len(self._left)))]
        found = [queued for uid in taken if (queued := self._queue.get(uid)) is not None]
        return [queued for queued in found if queued.subqueue is SubQueue.UNSCHEDULABLE]

    def _naming(self, claims: set[Key]) -> Iterator[str]:
        """Yields the uids of the pods whose reason names one of the claims."""
        for number, reason in self._new.items():
            for claim in _holders(reason.rejection):
                self._by_claim.setdefault(claim, {})[number] = reason
        self._new.clear()
        found = {number: reason for claim in claims for number, reason in self._by_claim.get(claim, {}).items()}
        for reason in found.values():
            yield from reason.pods

    def clock_set(self, seconds: float) -> None:
        self._not_before += seconds


def _nearest(diagnosis: Diagnosis | GroupDiagnosis | None) -> Rejection | None:
    """Returns the rejection by the allocator in a diagnosis, which may name claims that hold devices."""
    if isinstance(diagnosis, GroupDiagnosis):
        diagnosis = diagnosis.following
    return diagnosis.nearest if diagnosis is not None else None


def _holders(rejection: Rejection) -> set[Key]:
    """Returns the claims that the rejection names."""
    causes: Iterable[r.Cause] = (fallen.cause for request in rejection.requests for fallen in request.fallen)
    found = set(rejection.to_free or ())
    for cause in causes:
        if isinstance(cause, r.InUse | r.CapacityUsed):
            found.update(cause.owners)
    return found
