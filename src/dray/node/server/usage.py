"""Usage of a node and its containers: totals as they are read, and rates between two readings.

A reading is kept every few seconds. A rate goes from a reading that is old enough to now; for a container that has not
run for so long, from its start.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dray.api.objects import Object, uid_of
from dray.node.agent import NodeAgent
from dray.node.runtimes.interface import ContainerState

KEEP_SECONDS: Final = 10.0
_LEAST_WINDOW: Final = 5.0
_MACHINE: Final = ""
_NANO: Final = 1_000_000_000


class Reading(NamedTuple):
    """Usage at one time: processor nanoseconds in total and per second, memory in bytes; times since the epoch."""

    time: float
    started_at: float
    cpu_nanoseconds: int
    nano_cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class PodUsage:
    pod: Object
    containers: dict[str, Reading]


class UsageMeter:
    def __init__(
        self,
        agent: NodeAgent,
        *,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent = agent
        self._wall, self._now = wall, steady
        self._kept: dict[str, list[tuple[float, int]]] = {}
        """Times and processor times of the last two kept readings, by container; "" is the machine."""

    async def run(self) -> None:
        """Keeps readings until it is cancelled."""
        while True:
            readings = {_MACHINE: self.machine()}
            for state in self._running():
                if (reading := await self._read(state)) is not None:
                    readings[state.id] = reading
            self._kept = {
                name: [*self._kept.get(name, ())[-1:], (self._now(), each.cpu_nanoseconds)]
                for name, each in readings.items()
            }
            await asyncio.sleep(KEEP_SECONDS)

    def _running(self) -> list[ContainerState]:
        records = [record for worker in self._agent.workers() for record in worker.records]
        return [record.state for record in records if record.state is not None and record.running]

    def machine(self) -> Reading:
        ticks = os.sysconf("SC_CLK_TCK")
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        # All states except idle and waiting for disks.
        busy = (sum(fields) - fields[3] - fields[4]) * _NANO // ticks
        boot = self._wall() - float(Path("/proc/uptime").read_text().split()[0])
        memory = _memory()
        return self._rated(_MACHINE, boot, busy, memory["MemTotal"] - memory.get("MemAvailable", 0))

    def available_memory(self) -> int:
        return _memory().get("MemAvailable", 0)

    async def pods(self) -> list[PodUsage]:
        """Returns the usage of pods with a running container whose usage is known."""
        found = []
        for worker in self._agent.workers():
            readings = {}
            for record in worker.records:
                if record.state is not None and record.running and (reading := await self._read(record.state)):
                    readings[record.name] = reading
            if readings:
                found.append(PodUsage(worker.pod, readings))
        return sorted(found, key=lambda each: uid_of(each.pod))

    async def _read(self, state: ContainerState) -> Reading | None:
        usage = await self._agent.runtime.usage(state.id)
        if usage is None:
            return None
        return self._rated(state.id, state.started_at, usage.cpu_nanoseconds, usage.memory_bytes)

    def _rated(self, name: str, started_at: float, cpu: int, memory: int) -> Reading:
        now, wall = self._now(), self._wall()
        # The wall clock, which start times refer to, may have been set since then.
        since, before = now - max(wall - started_at, 1.0), 0
        kept = self._kept.get(name, [])
        old_enough = [reading for reading in kept if now - reading[0] >= _LEAST_WINDOW]
        if old_enough:
            since, before = old_enough[-1]
        elif name == _MACHINE and kept:
            # The container started long ago: use a short window.
            since, before = kept[0]
        rate = max(cpu - before, 0) / max(now - since, 0.001)
        return Reading(time=wall, started_at=started_at, cpu_nanoseconds=cpu, nano_cores=int(rate), memory_bytes=memory)


def _memory() -> dict[str, int]:
    """Returns the values of /proc/meminfo in bytes, by name."""
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        found[name] = int(value.split()[0]) << 10
    return found
