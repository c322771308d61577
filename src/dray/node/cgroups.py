"""Control groups of containers: limits of cpu and memory, usage, and OOM kills; versions 1 and 2.

    <hierarchy>/dray/<pod uid>/<container>-<attempt>

Where the machine has no control groups that this process may write, `Cgroups.usable` is false, limits are not enforced
and usage is what their processes tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from dray.node import device_filter
from dray.node.device_filter import DeviceNumber
from dray.node.runtimes.configs import Limits
from dray.node.runtimes.interface import Usage

_PERIOD = 100_000
_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "devices")
# Version 1: a group takes no process before it has both.
_CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")
_ROOT = Path("/sys/fs/cgroup")
_DENIED_DEVICES = "devices.deny"
_VERSION_2 = "cgroup.controllers"
# Memory devices such as /dev/null, which every process needs.
_MEMORY_DEVICES = 1
_REMOVALS = 100
_REMOVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The control group of a container: one directory per controller in version 1, a single one in version 2."""

    directories: tuple[Path, ...]

    def limit(self, limits: Limits) -> None:
        for directory in self.directories:
            for name, value in _settings(limits).items():
                if (directory / name).exists():
                    (directory / name).write_text(value)

    def deny(self, files: Iterable[str], given: Iterable[str]) -> None:
        """Keeps its processes from opening these device files by whatever name, if this machine has device rules.

        The devices of `given` files stay allowed.
        """
        allowed = set(map(_device_number, given))
        denied = [device for device in dict.fromkeys(map(_device_number, files)) if device and device not in allowed]
        for directory in self.directories:
            if (directory / _DENIED_DEVICES).exists():
                for device in denied:
                    (directory / _DENIED_DEVICES).write_text(f"{device.type} {device.major}:{device.minor} rwm")
            elif denied and (directory / _VERSION_2).exists() and not device_filter.why_not():
                device_filter.attach(directory, denied)

    def usage(self) -> Usage | None:
        cpu = self._number("cpuacct.usage") or self._of_stat("cpu.stat", "usage_usec") * 1000
        memory = self._number("memory.usage_in_bytes") or self._number("memory.current")
        # Caches of files that the kernel would free at once are not counted.
        idle = self._of_stat("memory.stat", "total_inactive_file") or self._of_stat("memory.stat", "inactive_file")
        memory = max(memory - idle, 0)
        return Usage(cpu, memory) if cpu or memory else None

    def oom_killed(self) -> bool:
        return bool(self._of_stat("memory.events", "oom_kill") or self._of_stat("memory.oom_control", "oom_kill"))

    def members(self) -> set[int]:
        """Returns the ids of all processes in the group and in the groups below it."""
        found: set[int] = set()
        for directory in self.directories:
            for procs in directory.glob("**/cgroup.procs"):
                with contextlib.suppress(OSError):
                    found.update(map(int, procs.read_text().split()))
        return found

    def processes(self) -> list[int]:
        return [int(pid) for pid in self._read("cgroup.procs").split()]

    def remove(self) -> bool:
        """Removes this group and the groups below it that have no processes. Returns True if none is left."""
        return _remove(self.directories)

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


def _device_number(file: str) -> DeviceNumber | None:
    """Returns the number of a device file; None for other files and for devices that all processes need."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    if os.major(found.st_rdev) == _MEMORY_DEVICES:
        return None
    kind = "c" if stat.S_ISCHR(found.st_mode) else "b" if stat.S_ISBLK(found.st_mode) else ""
    return DeviceNumber(kind, os.major(found.st_rdev), os.minor(found.st_rdev)) if kind else None


def cpu_shares(limits: Limits) -> int:
    """Returns the CPU shares for the CPU request, calculated like a kubelet does."""
    request = limits.cpu_request_millis or limits.cpu_millis or 0
    return min(max(2, request * 1024 // 1000), 262_144)


def cpu_quota(limits: Limits) -> tuple[int, int] | None:
    """Returns the quota and its period in microseconds; None if cpu is not limited."""
    return (max(1000, limits.cpu_millis * _PERIOD // 1000), _PERIOD) if limits.cpu_millis else None


def cgroup_at(path: str, root: Path = _ROOT) -> Cgroup:
    """Returns an existing control group by its path in every hierarchy."""
    return Cgroup(tuple(hierarchy / path.lstrip("/") for hierarchy in _hierarchies(root)))


def remove_below(path: str, root: Path = _ROOT) -> bool:
    """Removes empty groups at the path and below it, in all hierarchies. Returns True if none is left."""
    return _remove(
        [hierarchy / path for hierarchy in ([root] if (root / "cgroup.controllers").exists() else root.iterdir())]
    )


async def removed(remove: Callable[[], bool]) -> None:
    """Retries `remove` for some seconds, because a process leaves its group a moment after it has ended."""
    for _ in range(_REMOVALS):
        if remove():
            return
        await asyncio.sleep(_REMOVAL_SECONDS)


def _remove(tops: Iterable[Path]) -> bool:
    found = [top for top in tops if top.is_dir()]
    for top in found:
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
    return not any(directory.is_dir() for directory in found)


def _settings(limits: Limits) -> dict[str, str]:
    """Returns values by file name, for both versions of control groups; only files that exist are written."""
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
        self._parents = [hierarchy / parent for hierarchy in _hierarchies(root)]
        self._parents = [directory for directory in self._parents if _made(directory)]

    @property
    def usable(self) -> bool:
        return bool(self._parents)

    def why_no_device_rules(self) -> str:
        """Returns why containers cannot be kept from opening devices by number; empty if they can."""
        if not self.usable:
            return "no control groups that this user may write"
        if any((directory / _DENIED_DEVICES).exists() for directory in self._parents):
            return ""
        if any((directory / _VERSION_2).exists() for directory in self._parents):
            why = device_filter.why_not()
            return f"no BPF program can be loaded: {why}" if why else ""
        return "the controller devices of version 1 is not there"

    def find(self, pod_uid: str, name: str = "") -> Cgroup:
        """Returns the control group of a container, or of the whole pod if no name is given."""
        return Cgroup(tuple(directory / pod_uid / name for directory in self._parents))

    def make(self, pod_uid: str, name: str) -> Cgroup:
        cgroup = self.find(pod_uid, name)
        for directory in cgroup.directories:
            directory.parent.mkdir(exist_ok=True)
            _delegate(directory.parent)
            _inherit_cpus(directory.parent)
            directory.mkdir(exist_ok=True)
            _inherit_cpus(directory)
        return cgroup


def _hierarchies(root: Path) -> Iterable[Path]:
    if (root / "cgroup.controllers").exists():
        return [root]
    return [root / name for name in _CONTROLLERS if (root / name / "cgroup.procs").exists()]


def _made(directory: Path) -> bool:
    try:
        _delegate(directory.parent)
        directory.mkdir(exist_ok=True)
        _delegate(directory)
        _inherit_cpus(directory)
        return os.access(directory, os.W_OK)
    except OSError:
        return False


def _delegate(directory: Path) -> None:
    """Switches the controllers on for the groups below (version 2)."""
    control = directory / "cgroup.subtree_control"
    if control.exists():
        # The kernel refuses the whole line if one of its controllers is missing.
        for controllers in ("+cpu +memory +pids", "+cpuset"):
            with contextlib.suppress(OSError):
                control.write_text(controllers)


def _inherit_cpus(directory: Path) -> None:
    """Version 1: gives a new group the CPUs and memory nodes of its parent. Raises OSError."""
    for name in _CPUSET_FILES if not (directory / "cgroup.controllers").exists() else ():
        if (directory / name).exists() and not (directory / name).read_text().strip():
            (directory / name).write_text((directory.parent / name).read_text())
