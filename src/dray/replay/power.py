"""Power: the watts that the GPUs of a cluster draw, by how many of each model are in use. CPUs are not counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dray.replay.traces import Machine
from dray.scheduling.cluster.gpu_watts import watts_of

GpuKey = tuple[str, str]
"""Node and device."""


class Power:
    def __init__(self, machines: Iterable[Machine]) -> None:
        self._models = {machine.name: machine.model for machine in machines}
        self.watts = sum(machine.gpus * watts_of(machine.model)[0] for machine in machines)
        self._users: Counter[GpuKey] = Counter()

    def use(self, gpus: Iterable[GpuKey]) -> None:
        for gpu in gpus:
            self._users[gpu] += 1
            if self._users[gpu] == 1:
                self.watts += self._difference(gpu)

    def release(self, gpus: Iterable[GpuKey]) -> None:
        for gpu in gpus:
            self._users[gpu] -= 1
            if not self._users[gpu]:
                self.watts -= self._difference(gpu)

    def _difference(self, gpu: GpuKey) -> int:
        idle, used = watts_of(self._models[gpu[0]])
        return used - idle
