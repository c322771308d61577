"""Simulation: one run of workloads through the scheduler, all at once or in virtual time.

All at once, workloads come one after the other and never end; a workload that does not fit when it comes is refused
for good. In virtual time a workload comes at its time, waits until it fits (or is refused at once, with `wait=False`),
and ends after its run time. An evicted pod is created again, and its workload runs anew once all of its pods run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from dray.api.objects import Key, key_of
from dray.replay.cluster import ObjectKey, ReplayCluster
from dray.replay.runs import Run, Sample, Wait, reason_of
from dray.replay.workloads import Workload, World
from dray.scheduling.model.actions import Bind, BindGroup, Refuse

_POINTS: Final = 200
"""The number of points of a curve, at most."""

Progress = Callable[[float], None]
"""Told which part of the workloads has come."""
Event = tuple[float, int, "Live", int]
"""The time, a serial number, the workload, and the attempt that ends then; 0 if the workload comes."""


def ignore(part: float) -> None:
    pass


@dataclass(slots=True, eq=False)
class Live:
    """A workload that has come."""

    name: str
    workload: Workload
    pods: set[Key] = field(default_factory=set)
    running: set[Key] = field(default_factory=set)
    others: list[ObjectKey] = field(default_factory=list)
    """The group of the workload; objects other than pods and claims."""
    attempt: int = 0
    """How often all of its pods have started."""
    reason: str = "Unknown"
    """Why it was not placed the last time it was tried."""


class Simulation:
    def __init__(self, world: World, policy: str, seed: int = 0) -> None:
        self._cluster = ReplayCluster(world, policy, seed)
        self.meter = self._cluster.meter
        self.run = Run(policy, seed, self.meter.units, errors=self._cluster.errors)
        self._owners: dict[Key, Live] = {}
        """The workloads of pods that have come and not ended."""
        self._serials = count()
        self._means = _Means()
        self._measured_from = float("-inf")
        """Workloads that come before this time do not count."""

    # All at once

    def play(self, workloads: Sequence[Workload], progress: Progress = ignore) -> Run:
        """Plays the workloads one after the other, without an end."""
        run, step = self.run, max(1, len(workloads) // _POINTS)
        for number, workload in enumerate(workloads):
            live = self._comes(Live(f"task-{number}", workload))
            self._decide()
            if len(live.running) < len(live.pods):
                self._refuse(live)
            if number % step == 0 or number + 1 == len(workloads):
                run.curve.append(self._sample(100 * run.requested / (run.units or 1)))
                progress((number + 1) / len(workloads))
        run.figures = self._sample(100 * run.requested / (run.units or 1))
        return run

    # Virtual time

    def play_in_time(
        self, workloads: Sequence[Workload], progress: Progress = ignore, *, wait: bool = True, warm_up: float = 0.0
    ) -> Run:
        """Plays the workloads at their times, until the last one has ended or waits for good.

        Without `wait` a workload that does not fit when it comes is refused. What waits in the end is refused too. The
        figures leave out the first seconds (`warm_up`), and the workloads that come in them.
        """
        run, cluster = self.run, self._cluster
        events: list[Event] = [
            (workload.created, next(self._serials), Live(f"task-{number}", workload), 0)
            for number, workload in enumerate(workloads)
        ]
        heapify(events)
        step, come = max(1, 2 * len(workloads) // _POINTS), 0
        cluster.now = min((each.created for each in workloads), default=0.0)
        self._measured_from = self._means.start = self._means.end = cluster.now + warm_up
        last = max((each.created for each in workloads), default=0.0)
        retried: float | None = None
        while events:
            due = cluster.scheduler.due() if wait else None
            retries = due is not None and due < events[0][0] and due != retried
            at = max(cluster.now, due) if due is not None and retries else events[0][0]
            if wait or at <= last:
                # Without waiting, the state is that of a cluster in use: until the last workload comes.
                self._means.add(at, self._sample(at))
            cluster.now = at
            if retries:
                retried = due
                self._decide(events)
                continue
            _, serial, live, attempt = heappop(events)
            if attempt:
                self._ends(live, attempt)
            else:
                come += 1
                progress(come / len(workloads))
                self._comes(live)
            self._decide(events)
            if not wait and not attempt and len(live.running) < len(live.pods):
                self._refuse(live)
            if serial % step == 0 or not events:
                run.curve.append(self._sample(at))
        run.figures = self._means.mean() or self._sample(cluster.now)
        for live in set(self._owners.values()):
            if not live.attempt:
                self._refuse(live)
        return run

    # Workloads

    def _comes(self, live: Live) -> Live:
        documents = live.workload.objects(live.name)
        live.pods = {key_of(each) for each in documents if each["kind"] == "Pod"}
        live.others = [
            (each["kind"], key_of(each)) for each in documents if each["kind"] not in ("Pod", "ResourceClaim")
        ]
        for key in live.pods:
            self._owners[key] = live
        for document in documents:
            self._cluster.put(document)
        if self._counts(live):
            self.run.requested += live.workload.units
        return live

    def _counts(self, live: Live) -> bool:
        return live.workload.created >= self._measured_from

    def _ends(self, live: Live, attempt: int) -> None:
        if attempt == live.attempt and live.running:
            self._remove(live)

    def _refuse(self, live: Live) -> None:
        if self._counts(live):
            self.run.refused[live.workload.size] += 1
            self.run.reasons[live.reason] += 1
        self._remove(live)

    def _remove(self, live: Live) -> None:
        for key in live.pods:
            del self._owners[key]
        self._cluster.remove(live.pods, live.others)
        live.pods, live.running = set(), set()

    def _decide(self, events: list[Event] | None = None) -> None:
        """Carries out what the scheduler decides, until it has nothing more to decide at this time."""
        for action in self._cluster.decisions():
            if isinstance(action, Refuse):
                self._refused(action)
                if events is None and action.preemption is None:
                    # All at once nobody else waits, and the pod is not tried again.
                    return
                continue
            for bind in action.binds if isinstance(action, BindGroup) else (action,):
                self._started(bind, events)

    def _refused(self, action: Refuse) -> None:
        reason = reason_of(action.diagnosis)
        for pod in action.pods:
            if (live := self._owners.get(pod.key)) is not None:
                live.reason = reason
        for victim in self._cluster.evict(action):
            self.run.evictions += 1
            if (live := self._owners.get(victim)) is not None:
                live.running.discard(victim)

    def _started(self, bind: Bind, events: list[Event] | None) -> None:
        live = self._owners.get(bind.pod.key)
        if live is None:
            return
        live.running.add(bind.pod.key)
        if len(live.running) < len(live.pods):
            return
        live.attempt += 1
        workload, run = live.workload, self.run
        if live.attempt == 1 and self._counts(live):
            run.placed += 1
            run.accepted += workload.units
            if events is not None:
                waited = self._cluster.now - workload.created
                run.waits.append(Wait(waited, workload.size, workload.queue))
        if events is not None and workload.seconds is not None:
            end = self._cluster.now + workload.seconds
            heappush(events, (end, next(self._serials), live, live.attempt))

    def _sample(self, x: float) -> Sample:
        meter = self.meter
        allocated = 100 * meter.allocated / meter.units if meter.units else 0.0
        return Sample(x, allocated, 100 * meter.fragmented, meter.watts, meter.whole_free)


class _Means:
    """Adds up samples, each with the time that it lasted."""

    def __init__(self) -> None:
        self.start = self.end = 0.0
        self._sums = [0.0] * len(Sample._fields)

    def add(self, until: float, sample: Iterable[float]) -> None:
        duration = until - self.end
        if duration <= 0:
            return
        self._sums = [total + duration * value for total, value in zip(self._sums, sample, strict=True)]
        self.end = until

    def mean(self) -> Sample | None:
        duration = self.end - self.start
        return Sample(*(total / duration for total in self._sums)) if duration > 0 else None
