"""Traces: nodes and tasks of a cluster as CSV files, in the columns of Alibaba's cluster-trace-gpu-v2023.

Nodes have the columns `sn, cpu_milli, memory_mib, gpu, model`. Tasks have `name, cpu_milli, memory_mib, num_gpu,
gpu_milli, gpu_spec, creation_time, deletion_time`. `gpu_milli` is the part of each GPU in thousandths, `gpu_spec` are
models joined by `|`, and times are in seconds. Other columns are ignored; `gpu_spec` and times may be missing. Files
whose names end in `.gz` are compressed.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TextIO, TypeVar

from dray.replay.workloads import Workload

T = TypeVar("T")


class TraceError(ValueError):
    """A file is not a trace."""


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
    return list(read_rows(file, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _machine))


def read_tasks(file: Path) -> list[Task]:
    """Raises TraceError if the file has not the columns of tasks, OSError if it cannot be read."""
    return list(read_rows(file, ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"), _task))


def _machine(row: dict[str, str]) -> Machine:
    return Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])


def _task(row: dict[str, str]) -> Task:
    gpus = int(row["num_gpu"])
    return Task(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        gpus,
        int(row["gpu_milli"]) if gpus else 0,
        row.get("gpu_spec") or "",
        float(row.get("creation_time") or 0),
        float(row["deletion_time"]) if row.get("deletion_time") else None,
    )


def column_names(file: Path) -> Sequence[str]:
    """The column names of a CSV file. Raises OSError."""
    with _opened(file) as text:
        return csv.DictReader(text).fieldnames or ()


def _opened(file: Path) -> TextIO:
    return gzip.open(file, "rt") if file.suffix == ".gz" else file.open()


def read_rows(file: Path, columns: Sequence[str], made: Callable[[dict[str, str]], T]) -> Iterator[T]:
    """Yields what is made of each line. Raises TraceError with the line, if a column is missing or a value is wrong."""
    with _opened(file) as text:
        reader = csv.DictReader(text)
        try:
            if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise TraceError(f"{file}: column {missing[0]} not found")
            for row in reader:
                yield made(row)
        except (ValueError, TypeError, csv.Error) as error:
            if isinstance(error, TraceError) and not reader.line_num > 1:
                raise
            raise TraceError(f"{file}, line {reader.line_num}: {error}") from None


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
