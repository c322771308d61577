"""EvictionHistory: which workloads had which others evicted within the last hour, so that this does not go in circles.

Quota and priority may contradict each other: one pod reclaims quota from a second, the second takes the place of a
third by priority, and the third that of the first. Each eviction is right, and all of them have no end. After some
rounds pods are spared by those whom they, or others on their behalf, had evicted too. It is a last resort: evictions
that lead nowhere else are not limited. A workload is a group, what a controller makes, or a single pod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from math import inf
from typing import Final

from dray.api.objects import controller_of
from dray.scheduling.model.pod import Pod

LIMIT: Final = 4
"""Times that a workload may have another one evicted while that one is evicted for it in turn."""
WINDOW: Final = 3600.0

Workload = Hashable


class EvictionHistory:
    def __init__(self) -> None:
        self._times: dict[Workload, dict[Workload, deque[float]]] = {}
        """By the workload that evicts and the one that is evicted, the last times."""

    def __bool__(self) -> bool:
        return bool(self._times)

    def note(self, asking: Pod, victims: Iterable[Pod], now: float) -> None:
        """The pods are evicted for another one."""
        found = self._times.setdefault(workload_of(asking), {})
        for victim in {workload_of(each) for each in victims} - {workload_of(asking)}:
            found.setdefault(victim, deque(maxlen=LIMIT)).append(now)
        self._forget(now)

    def spares(self, asking: Pod, victim: Pod, now: float) -> bool:
        """Whether the victim is not evicted for the other pod, since that happened too often and in a circle."""
        one, other = workload_of(asking), workload_of(victim)
        return self._is_exhausted(one, other, now) and self._leads_to(other, one, now)

    def is_limited(self, victim: Pod, now: float) -> bool:
        """Whether some workload may not have the pod evicted again."""
        other = workload_of(victim)
        return any(self._is_exhausted(one, other, now) and self._leads_to(other, one, now) for one in list(self._times))

    def retry_at(self, asking: Pod, now: float) -> float:
        """When more pods may be evicted for a pod than now; infinite where it spares nobody."""
        one = workload_of(asking)
        times = (each[0] + WINDOW for other, each in self._times.get(one, {}).items() if len(each) >= LIMIT)
        return min((when for when in times if when > now), default=inf)

    def clock_set(self, seconds: float) -> None:
        """The clock was set forward by so many seconds."""
        for others in self._times.values():
            for other, times in others.items():
                others[other] = deque((each + seconds for each in times), maxlen=LIMIT)

    def _is_exhausted(self, one: Workload, other: Workload, now: float) -> bool:
        times = self._times.get(one, {}).get(other)
        return times is not None and len(times) >= LIMIT and times[0] > now - WINDOW

    def _leads_to(self, start: Workload, end: Workload, now: float) -> bool:
        """Whether the first had the other evicted, or somebody that did, and so on."""
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
