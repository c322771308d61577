"""Power: the watts that the GPUs of a cluster draw, by how many of each model are in use.

`watts.json` has the watts of a GPU by model, idle and in use. Of models that are not listed, the longest listed name
that their name begins with counts (V100M32: V100), or nothing. G2 and G3 are undisclosed models of a public trace, with
the watts of an A10 and an A100. CPUs are not counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib import resources

from dray.replay.traces import Machine

GpuKey = tuple[str, str]
"""Node and device."""


@cache
def watts_of(model: str) -> tuple[float, float]:
    """The watts of a GPU that is idle, and of one that is in use."""
    known = json.loads(resources.files("dray.replay").joinpath("watts.json").read_text())
    fitting = [name for name in known if model.startswith(name)]
    idle, used = known[max(fitting, key=len)] if fitting else (0, 0)
    return idle, used


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

    def _difference(self, gpu: GpuKey) -> float:
        idle, used = watts_of(self._models[gpu[0]])
        return used - idle
