"""Control groups of containers: limits of cpu and memory, usage, and who ran out of memory; versions 1 and 2.

    <hierarchy>/dray/<pod uid>/<container>-<attempt>

Where the machine has no control groups that this process may write, `Cgroups.usable` is false, limits are not enforced
and usage is what their processes tell.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from dray.node.runtimes.configs import Limits
from dray.node.runtimes.interface import Usage

_PERIOD = 100_000
_CONTROLLERS = ("cpu", "cpuacct", "memory", "pids")
_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Of one container: a directory a controller, or one for all of them."""

    directories: tuple[Path, ...]

    def limit(self, limits: Limits) -> None:
        for directory in self.directories:
            for name, value in _settings(limits).items():
                if (directory / name).exists():
                    (directory / name).write_text(value)

    def usage(self) -> Usage | None:
        cpu = self._number("cpuacct.usage") or self._of_stat("cpu.stat", "usage_usec") * 1000
        memory = self._number("memory.usage_in_bytes") or self._number("memory.current")
        # What the system would give up at once, as files that were read, is not counted.
        idle = self._of_stat("memory.stat", "total_inactive_file") or self._of_stat("memory.stat", "inactive_file")
        memory = max(memory - idle, 0)
        return Usage(cpu, memory) if cpu or memory else None

    def oom_killed(self) -> bool:
        return bool(self._of_stat("memory.events", "oom_kill") or self._of_stat("memory.oom_control", "oom_kill"))

    def kill(self) -> None:
        """All processes in it and in groups below it."""
        for directory in self.directories:
            for procs in directory.glob("**/cgroup.procs"):
                with contextlib.suppress(OSError):
                    for pid in map(int, procs.read_text().split()):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, SIGKILL)

    def processes(self) -> list[int]:
        return [int(each) for each in self._read("cgroup.procs").split()]

    def remove(self) -> None:
        for directory in self.directories:
            with contextlib.suppress(OSError):
                directory.rmdir()

    def _read(self, name: str) -> str:
        for directory in self.directories:
            with contextlib.suppress(OSError):
                return (directory / name).read_text()
        return ""

    def _number(self, name: str) -> int:
        return int(self._read(name).strip() or 0)

    def _of_stat(self, name: str, key: str) -> int:
        for line in self._read(name).splitlines():
            first, _, value = line.partition(" ")
            if first == key:
                return int(value)
        return 0


def cpu_shares(limits: Limits) -> int:
    """By the request, as a kubelet counts them."""
    request = limits.cpu_request_millis or limits.cpu_millis or 0
    return min(max(2, request * 1024 // 1000), 262_144)


def cpu_quota(limits: Limits) -> tuple[int, int] | None:
    """Microseconds within a period; None is unlimited."""
    return (max(1000, limits.cpu_millis * _PERIOD // 1000), _PERIOD) if limits.cpu_millis else None


def cgroup_at(path: str, root: Path = _ROOT) -> Cgroup:
    """One that somebody else made, by its path in every hierarchy."""
    return Cgroup(tuple(each / path.lstrip("/") for each in _hierarchies(root)))


def remove_below(path: str, root: Path = _ROOT) -> bool:
    """Empty groups at the path and below it, in all hierarchies; whether nothing is left."""
    tops = [each / path for each in ([root] if (root / "cgroup.controllers").exists() else root.iterdir())]
    for top in [each for each in tops if each.is_dir()]:
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    return not any(each.is_dir() for each in tops)


def _settings(limits: Limits) -> dict[str, str]:
    """Values by file, of both versions: those that exist are written."""
    shares = cpu_shares(limits)
    found = {"cpu.shares": str(shares), "cpu.weight": str(1 + (shares - 2) * 9999 // 262_142)}
    quota, period = cpu_quota(limits) or (-1, _PERIOD)
    found |= {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}
    found["cpu.max"] = f"{quota if quota > 0 else 'max'} {period}"
    found["memory.limit_in_bytes"] = str(limits.memory or -1)
    found["memory.max"] = str(limits.memory or "max")
    return found


class Cgroups:
    def __init__(self, root: Path = _ROOT, parent: str = "dray") -> None:
        self._parents = [each / parent for each in _hierarchies(root)]
        self._parents = [each for each in self._parents if _made(each)]

    @property
    def usable(self) -> bool:
        return bool(self._parents)

    def find(self, pod_uid: str, name: str) -> Cgroup:
        return Cgroup(tuple(each / pod_uid / name for each in self._parents))

    def make(self, pod_uid: str, name: str) -> Cgroup:
        cgroup = self.find(pod_uid, name)
        for directory in cgroup.directories:
            directory.parent.mkdir(exist_ok=True)
            _delegate(directory.parent)
            directory.mkdir(exist_ok=True)
        return cgroup

    def remove_pod(self, pod_uid: str) -> None:
        for parent in self._parents:
            with contextlib.suppress(OSError):
                for each in (parent / pod_uid).iterdir():
                    if each.is_dir():
                        each.rmdir()
                (parent / pod_uid).rmdir()


def _hierarchies(root: Path) -> Iterable[Path]:
    if (root / "cgroup.controllers").exists():
        return [root]
    return [root / name for name in _CONTROLLERS if (root / name / "cgroup.procs").exists()]


def _made(directory: Path) -> bool:
    try:
        _delegate(directory.parent)
        directory.mkdir(exist_ok=True)
        _delegate(directory)
        return os.access(directory, os.W_OK)
    except OSError:
        return False


def _delegate(directory: Path) -> None:
    """Version 2: the controllers are on for the groups below."""
    control = directory / "cgroup.subtree_control"
    if control.exists():
        with contextlib.suppress(OSError):
            control.write_text("+cpu +memory +pids")
