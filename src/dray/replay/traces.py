"""Traces: nodes and tasks of a cluster as CSV files, in the columns of Alibaba's cluster-trace-gpu-v2023.

Nodes have the columns `sn, cpu_milli, memory_mib, gpu, model`. Tasks have `name, cpu_milli, memory_mib, num_gpu,
gpu_milli, gpu_spec, creation_time, deletion_time`. `gpu_milli` is the part of each GPU in thousandths, `gpu_spec` are
models joined by `|`, and times are in seconds. Other columns are ignored; `gpu_spec` and times may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from dray.replay.csv_files import read_rows, seconds, whole
from dray.replay.device_units import WHOLE
from dray.replay.workloads import Workload

_MOST: Final = 10**12
"""The maximum amount of cpu in thousandths of a core, and of memory in MiB."""
_MOST_GPUS: Final = 128
"""A ResourceSlice has at most so many devices."""


@dataclass(frozen=True, slots=True)
class Machine:
    name: str
    cpu: int
    """The CPU in thousandths of a core."""
    memory: int
    """The memory in MiB."""
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Task:
    cpu: int
    memory: int
    gpus: int
    milli: int
    """The part of each GPU, in thousandths."""
    models: str = ""
    created: float = 0.0
    deleted: float | None = None

    @property
    def units(self) -> int:
        return self.gpus * self.milli

    @property
    def seconds(self) -> float | None:
        """How long the task runs; None if it does not end."""
        return None if self.deleted is None else max(0.0, self.deleted - self.created)


def read_machines(file: Path) -> list[Machine]:
    """Raises TraceError if the file has not the columns of nodes, OSError if it cannot be read."""
    names: set[str] = set()

    def made(row: dict[str, str]) -> Machine:
        machine = _machine(row)
        if machine.name in names:
            raise ValueError(f"sn: there are two nodes {machine.name!r}")
        names.add(machine.name)
        return machine

    return list(read_rows(file, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), made))


def read_tasks(file: Path) -> list[Task]:
    """Raises TraceError if the file has not the columns of tasks, OSError if it cannot be read."""
    return list(read_rows(file, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), _task))


def _machine(row: dict[str, str]) -> Machine:
    if not row["sn"]:
        raise ValueError("sn: the line has no value for it")
    cpu, memory = whole(row, "cpu_milli", 0, _MOST), whole(row, "memory_mib", 0, _MOST)
    return Machine(row["sn"], cpu, memory, whole(row, "gpu", 0, _MOST_GPUS), row["model"] or "")


def _task(row: dict[str, str]) -> Task:
    gpus = whole(row, "num_gpu", 0, _MOST_GPUS)
    return Task(
        whole(row, "cpu_milli", 0, _MOST),
        whole(row, "memory_mib", 0, _MOST),
        gpus,
        whole(row, "gpu_milli", 1, WHOLE) if gpus else 0,
        row.get("gpu_spec") or "",
        seconds(row, "creation_time") or 0.0,
        seconds(row, "deletion_time"),
    )


def drawn(tasks: Sequence[Workload], units: float, seed: int) -> list[Workload]:
    """Returns all workloads in a random order, then random ones again, until they request this number of units."""
    random = Random(seed)
    rest = random.sample(list(tasks), len(tasks))
    found, requested = [], 0
    while requested < units:
        task = rest.pop() if rest else random.choice(tasks)
        found.append(task)
        requested += task.units
    return found
