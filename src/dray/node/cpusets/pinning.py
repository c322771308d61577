"""Processes pinned to the CPUs of their claims, for runtimes that run containers as processes.

The driver tells a container its CPUs in the environment, one variable `DRA_CPUSET_<claim uid>` for each claim.
`claimed_cpus` reads them; `Pinning` holds the processes of one container to CPUs: in a cgroup of its own where cpusets
can be written, by CPU affinity otherwise. A process may widen its affinity again, but cannot leave a cgroup.

    cpus = claimed_cpus(environment)
    pinning = Pinning(container_id, cpus or shared_cpus, hierarchy)
    pinning.apply(process.pid)
    ...
    pinning.release()
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dray.node.cpusets.cgroups import CgroupError, CpusetGroup, Hierarchy
from dray.node.cpusets.lists import Cpuset, CpusetError, format_cpuset, parse_cpuset

_logger = logging.getLogger(__name__)

VARIABLE: Final = "DRA_CPUSET_"
# Parent of all groups that are made here.
PARENT: Final = "dray"
# Threads that start while a process is pinned are found by repeated scans, up to this number.
_SWEEPS: Final = 100


class PinningError(Exception):
    """Raised if a process cannot be pinned to its CPUs."""


def claimed_cpus(environment: Mapping[str, str]) -> Cpuset:
    """Returns the CPUs of all claims of a container; empty if it has no claim for CPUs.

    Raises PinningError for a value that is not a CPU list.
    """
    found: Cpuset = frozenset()
    for name, value in environment.items():
        if name.startswith(VARIABLE):
            try:
                found |= parse_cpuset(value)
            except CpusetError as error:
                raise PinningError(f"{name}: {error}; the names {VARIABLE}* belong to the CPU driver") from error
    return found


class Pinning:
    """Pins the processes of one container. `name` is unique on the machine."""

    def __init__(self, name: str, cpus: Cpuset, hierarchy: Hierarchy | None) -> None:
        if "/" in name or name in ("", ".", ".."):
            raise PinningError(f"{name!r} cannot name a cgroup")
        self._name = name
        self._cpus = cpus
        self._group: CpusetGroup | None = None
        self._pids: set[int] = set()
        if hierarchy is not None:
            self._group = self._make_group(hierarchy)

    @property
    def mechanism(self) -> str:
        """Returns how the processes are pinned: `cgroup v1`, `cgroup v2` or `affinity`."""
        return "affinity" if self._group is None else f"cgroup v{self._group.version}"

    @property
    def cpus(self) -> Cpuset:
        return self._cpus

    def apply(self, pid: int) -> None:
        """Pins a process and every process that it starts from now on. Raises PinningError."""
        self._pids.add(pid)
        if self._group is None:
            set_affinity(pid, self._cpus)
            return
        try:
            self._group.take(pid)
        except CgroupError as error:
            raise PinningError(str(error)) from error

    def change(self, cpus: Cpuset) -> None:
        """Moves the processes to other CPUs, such as when the shared CPUs change. Raises PinningError."""
        self._cpus = cpus
        if self._group is None:
            self._pids = {pid for pid in self._pids if _is_alive(pid)}
            for pid in self._pids:
                set_affinity(pid, cpus)
            return
        try:
            self._group.confine(cpus)
        except CgroupError as error:
            raise PinningError(str(error)) from error

    def release(self) -> None:
        """Removes the cgroup, after the container has ended."""
        self._pids.clear()
        if self._group is None:
            return
        try:
            self._group.remove()
        except CgroupError as error:
            raise PinningError(str(error)) from error

    def _make_group(self, hierarchy: Hierarchy) -> CpusetGroup | None:
        try:
            return hierarchy.make(f"{PARENT}/{self._name}", self._cpus)
        except CgroupError as error:
            _logger.warning("%s; %s is held to CPUs %s by affinity", error, self._name, format_cpuset(self._cpus))
            return None


def set_affinity(pid: int, cpus: Cpuset) -> None:
    """Sets the CPUs of every thread of a process. Ignores a process that has ended. Raises PinningError."""
    done: set[int] = set()
    for _ in range(_SWEEPS):
        missing = _threads(pid) - done
        if not missing:
            return
        for thread in missing:
            _set_thread_affinity(thread, cpus)
        done |= missing
    raise PinningError(f"process {pid} starts threads faster than they can be pinned")


def _set_thread_affinity(thread: int, cpus: Cpuset) -> None:
    try:
        os.sched_setaffinity(thread, cpus)
    except ProcessLookupError:
        pass
    except OSError as error:
        raise PinningError(f"cannot pin thread {thread} to CPUs {format_cpuset(cpus)}: {error.strerror}") from error


def _threads(pid: int) -> set[int]:
    try:
        return {int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()}
    except OSError:
        return set()


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
