"""EvictionHistory: the evictions of the last hour by workload, to end evictions that go in circles.

Quota and priority may contradict each other: one pod reclaims quota from a second, the second preempts a third by
priority, and the third preempts the first. Each eviction is allowed, but together they never end. After LIMIT
evictions, a workload does not evict another one again that had it evicted too, directly or through others. This is a
last resort: evictions that are not part of a circle are not limited. A workload is a group, the pods of a controller,
or a single pod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from math import inf
from typing import Final

from dray.api.objects import controller_of
from dray.scheduling.model.pod import Pod

LIMIT: Final = 4
"""How often a workload may evict another one within WINDOW seconds, if the other one evicts it in turn."""
WINDOW: Final = 3600.0

Workload = Hashable


class EvictionHistory:
    def __init__(self) -> None:
        self._times: dict[Workload, dict[Workload, deque[float]]] = {}
        """The times of the last evictions, by the workload that evicts and the workload that is evicted."""

    def __bool__(self) -> bool:
        return bool(self._times)

    def note(self, asking: Pod, victims: Iterable[Pod], now: float) -> None:
        """Notes that the victims are evicted for the pod `asking`."""
        found = self._times.setdefault(workload_of(asking), {})
        for victim in {workload_of(victim) for victim in victims} - {workload_of(asking)}:
            found.setdefault(victim, deque(maxlen=LIMIT)).append(now)
        self._forget(now)

    def spares(self, asking: Pod, victim: Pod, now: float) -> bool:
        """Whether the victim must not be evicted for the pod `asking`: that happened too often, and in a circle."""
        one, other = workload_of(asking), workload_of(victim)
        return self._is_exhausted(one, other, now) and self._leads_to(other, one, now)

    def evicting(self, pod: Pod) -> Workload | None:
        """Returns the workload of the pod if other pods were evicted for it, so that some may be spared from it."""
        workload = workload_of(pod) if self._times else None
        return workload if workload in self._times else None

    def is_limited(self, victim: Pod, now: float) -> bool:
        """Whether at least one workload may not evict the pod again."""
        other = workload_of(victim)
        return any(self._is_exhausted(one, other, now) and self._leads_to(other, one, now) for one in list(self._times))

    def retry_at(self, asking: Pod, now: float) -> float:
        """Returns the time when more pods may be evicted for the pod than now; infinite if no pod is spared."""
        one = workload_of(asking)
        times = (recent[0] + WINDOW for other, recent in self._times.get(one, {}).items() if len(recent) >= LIMIT)
        return min((when for when in times if when > now), default=inf)

    def clock_set(self, seconds: float) -> None:
        """Shifts all times, after the clock was set forward by a number of seconds."""
        for others in self._times.values():
            for other, times in others.items():
                others[other] = deque((time + seconds for time in times), maxlen=LIMIT)

    def _is_exhausted(self, one: Workload, other: Workload, now: float) -> bool:
        times = self._times.get(one, {}).get(other)
        return times is not None and len(times) >= LIMIT and times[0] > now - WINDOW

    def _leads_to(self, start: Workload, end: Workload, now: float) -> bool:
        """Whether the workload `start` evicted `end`, or evicted a workload that did, and so on."""
        seen, left = {start}, [start]
        while left:
            for other, times in self._times.get(left.pop(), {}).items():
                if times[-1] <= now - WINDOW or other in seen:
                    continue
                if other == end:
                    return True
                seen.add(other)
                left.append(other)
        return False

    def _forget(self, now: float) -> None:
        for one, others in list(self._times.items()):
            for other in [other for other, times in others.items() if times[-1] <= now - WINDOW]:
                del others[other]
            if not others:
                del self._times[one]


def workload_of(pod: Pod) -> Workload:
    if pod.group is not None:
        return pod.group
    controller = controller_of(pod.document)
    return str(controller.get("uid")) if controller is not None else pod.key
