"""Simulation: one run of a trace through the scheduler, all at once or in virtual time.

All at once, tasks come one after the other and never end; a task that does not fit when it comes is refused for good.
In virtual time a task comes at its creation time, waits until it fits, and ends after its run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from statistics import median, quantiles
from typing import Final

from dray.allocation import POLICIES
from dray.api.objects import Object, status_of
from dray.api.resource_claims import allocation_results
from dray.replay.power import GpuKey, Power
from dray.replay.trace_objects import device_class, machine_objects, task_objects
from dray.replay.traces import WHOLE, Machine, Task
from dray.scheduling.core.options import Options
from dray.scheduling.model.actions import Bind, Refuse
from dray.scheduling.scheduler import Scheduler

_POINTS: Final = 200
"""The number of points of a curve, at most."""

Progress = Callable[[float], None]
"""Told which part of the tasks has come."""


Event = tuple[float, int, str, Task, bool]
"""The time, a serial number, the name of a task, the task, and whether it comes or ends."""


def ignore(part: float) -> None:
    pass


@dataclass(slots=True)
class Run:
    policy: str
    seed: int
    units: int
    """Of all GPUs."""
    requested: int = 0
    allocated: int = 0
    placed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """The number of refused tasks by the number of GPUs that they request, as in `0.5` or `8`."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """All at once: requested and allocated units. In virtual time: seconds and allocated units. Units in percent."""
    waits: dict[str, list[float]] = field(default_factory=dict)
    """The seconds that tasks waited, by the number of GPUs that they request; in virtual time."""

    watts: float = 0.0
    """The power of the GPUs in the end; in virtual time, the mean."""

    @property
    def percent(self) -> float:
        """The allocated part of all units."""
        return 100 * self.allocated / self.units if self.units else 0.0

    @property
    def waiting(self) -> tuple[float, float]:
        """The median and the 95th percentile of the waiting time in seconds."""
        return wait_figures([seconds for waits in self.waits.values() for seconds in waits])


def wait_figures(waits: Sequence[float]) -> tuple[float, float]:
    if len(waits) < 2:
        return (waits[0], waits[0]) if waits else (0.0, 0.0)
    return median(waits), quantiles(waits, n=20)[-1]


def size_of(task: Task) -> str:
    return f"{task.units / WHOLE:g}"


class Simulation:
    def __init__(self, machines: Iterable[Machine], policy: str, seed: int = 0) -> None:
        machines = list(machines)
        self.run = Run(policy, seed, WHOLE * sum(machine.gpus for machine in machines))
        self._scheduler = Scheduler(Options(policy=POLICIES[policy], seed=seed))
        self._versions = count(1)
        self._objects: dict[tuple[str, str], Object] = {}
        self._now = 0.0
        self._power = Power(machines)
        self._gpus: dict[str, list[GpuKey]] = {}
        for document in (device_class(), *(each for machine in machines for each in machine_objects(machine))):
            self._put(document)

    # All at once

    def play(self, tasks: Sequence[Task], progress: Progress = ignore) -> Run:
        """Plays the tasks one after the other, without an end."""
        run, step = self.run, max(1, len(tasks) // _POINTS)
        for number, task in enumerate(tasks):
            name = f"task-{number}"
            self._create(name, task)
            run.requested += task.units
            if not self._decide({name: task}):
                self._remove(name)
                run.refused[size_of(task)] += 1
            if number % step == 0 or number + 1 == len(tasks):
                run.curve.append((100 * run.requested / (run.units or 1), run.percent))
                progress((number + 1) / len(tasks))
        run.watts = self._power.watts
        return run

    # Virtual time

    def play_in_time(self, tasks: Sequence[Task], progress: Progress = ignore) -> Run:
        """Plays the tasks at their times. Tasks that never fit wait to the end of the trace and count as refused."""
        run, waiting, serial = self.run, dict[str, Task](), count()
        events = [(task.created, next(serial), f"task-{number}", task, True) for number, task in enumerate(tasks)]
        heapify(events)
        step, come, energy = max(1, len(tasks) // _POINTS), 0, 0.0
        self._now = start = min((task.created for task in tasks), default=0.0)
        retried: float | None = None
        while events:
            due = self._scheduler.due()
            retries = due is not None and due < events[0][0] and due != retried
            at = max(self._now, due) if due is not None and retries else events[0][0]
            energy += (at - self._now) * self._power.watts
            self._now = at
            if retries:
                retried = due
            elif self._happens(heappop(events), waiting):
                come += 1
                if come % step == 0 or come == len(tasks):
                    progress(come / len(tasks))
            for placed in self._decide(waiting):
                self._started(placed, waiting, events, serial)
            if not events or next(serial) % step == 0:
                run.curve.append((at, run.percent))
        run.watts = energy / (self._now - start) if self._now > start else self._power.watts
        run.refused.update(map(size_of, waiting.values()))
        return run

    def _happens(self, event: Event, waiting: dict[str, Task]) -> bool:
        """A task comes or ends; returns True if it comes."""
        _, _, name, task, comes = event
        if comes:
            waiting[name] = task
            self._create(name, task)
            self.run.requested += task.units
        else:
            self._remove(name)
            self.run.allocated -= task.units
        return comes

    def _started(
        self,
        name: str,
        waiting: dict[str, Task],
        events: list[Event],
        serial: count[int],
    ) -> None:
        task = waiting.pop(name)
        self.run.waits.setdefault(size_of(task), []).append(self._now - task.created)
        if task.seconds is not None:
            heappush(events, (self._now + task.seconds, next(serial), name, task, False))

    # Objects and decisions

    def _create(self, name: str, task: Task) -> None:
        for document in task_objects(name, task):
            self._put(document)

    def _decide(self, tasks: dict[str, Task]) -> list[str]:
        """Carries out what the scheduler decides; returns the names of tasks that were placed."""
        placed = []
        while (action := self._scheduler.next(self._now)) is not None or self._scheduler.interrupted:
            if isinstance(action, Bind):
                name = action.pod.key[1]
                self._bind(action)
                self.run.allocated += tasks[name].units
                self.run.placed += 1
                placed.append(name)
            elif isinstance(action, Refuse) and len(tasks) == 1:
                break
        return placed

    def _bind(self, bind: Bind) -> None:
        name = bind.pod.key[1]
        for write in bind.writes:
            claim = self._objects["ResourceClaim", name]
            status = {**status_of(claim), "reservedFor": [write.consumer]}
            if write.allocation is not None:
                status["allocation"] = write.allocation
                gpus = [(result["pool"], result["device"]) for result in allocation_results(write.allocation)]
                self._gpus[name] = gpus
                self._power.use(gpus)
            self._scheduler.written(bind, write, self._stored({**claim, "status": status}), self._now)
        pod = self._objects["Pod", name]
        self._scheduler.bound(bind, self._now)
        spec = {**pod["spec"], "nodeName": bind.node}
        self._put({**pod, "spec": spec, "status": {"phase": "Running"}})

    def _put(self, document: Object) -> None:
        self._scheduler.put(document["kind"], self._stored(document), self._now)

    def _stored(self, document: Object) -> Object:
        metadata = {**document["metadata"], "resourceVersion": str(next(self._versions))}
        metadata.setdefault("uid", f"{document['kind']}-{metadata['name']}")
        stored = {**document, "metadata": metadata}
        self._objects[document["kind"], metadata["name"]] = stored
        return stored

    def _remove(self, name: str) -> None:
        self._power.release(self._gpus.pop(name, ()))
        for kind in ("Pod", "ResourceClaim"):
            if (document := self._objects.pop((kind, name), None)) is not None:
                self._scheduler.remove(kind, document, self._now)
