"""The cpuset controller of cgroups, version 1 and 2.

`find_hierarchy` says where cpusets are kept on a machine, `Hierarchy` finds and makes groups in it, `CpusetGroup` is
one of them. In version 1 a group may only have CPUs that its parent has and its children must stay within it, and it
takes no process before it has CPUs and memory nodes. In version 2 the kernel does that arithmetic, but a group has the
controller only if its parent passes it on.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from dray.node.cpusets.lists import Cpuset, format_cpuset, parse_cpuset

CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
_PROC: Final = Path("/proc")
# Processes that fork while they are moved are found by repeated scans, up to this number.
_SWEEPS: Final = 100


class CgroupError(Exception):
    """Raised if a value cannot be written to a cgroup."""


@dataclass(frozen=True, slots=True)
class CpusetGroup:
    """One directory of the hierarchy. Raises CgroupError where the kernel or the rights of this process refuse."""

    directory: Path
    version: Literal[1, 2]

    def cpus(self) -> Cpuset:
        """Returns the CPUs that its processes may run on."""
        name = "cpuset.cpus" if self.version == 1 else "cpuset.cpus.effective"
        return parse_cpuset(self._read(name))

    def confine(self, cpus: Cpuset) -> None:
        """Restricts the processes in this group and below it to these CPUs; offline CPUs are left out.

        Raises CgroupError if all of the CPUs are offline.
        """
        if self.version == 2:
            # The kernel leaves out CPUs that are offline, and adds them again when they are online.
            self._write("cpuset.cpus", format_cpuset(cpus))
            return
        above, asked = self._above(), cpus
        cpus = cpus & above[-1].cpus() if above else cpus
        if asked and not cpus:
            raise CgroupError(
                f"cannot write {format_cpuset(asked)!r} to {self.directory / 'cpuset.cpus'}: these CPUs are offline"
            )
        # The kernel removes an offline CPU from all groups, and later gives it back only to the topmost group.
        for group in reversed(above[:-1]):
            if not cpus <= (present := group.cpus()):
                group._write("cpuset.cpus", format_cpuset(present | cpus))
        self._confine(cpus)

    def _confine(self, cpus: Cpuset) -> None:
        # Set the union of the old and the new CPUs first, so that parent and children are consistent at every step.
        present = self.cpus()
        self._write("cpuset.cpus", format_cpuset(present | cpus))
        for child in self.children():
            child._confine(cpus)
        self._write("cpuset.cpus", format_cpuset(cpus))

    def _above(self) -> list[CpusetGroup]:
        """Returns the groups above this one, the nearest first; the last one has all CPUs that are online."""
        groups = []
        for directory in self.directory.parents:
            if not (directory / "cpuset.cpus").exists():
                break
            groups.append(CpusetGroup(directory, self.version))
        return groups

    def children(self) -> list[CpusetGroup]:
        try:
            found = sorted(entry for entry in self.directory.iterdir() if (entry / "cgroup.procs").exists())
        except OSError:
            return []
        return [CpusetGroup(directory, self.version) for directory in found]

    def processes(self) -> list[int]:
        return [int(pid) for pid in self._read("cgroup.procs").split()]

    def take(self, pid: int) -> None:
        """Moves the process and its threads into this group; processes that it forks later start in this group."""
        self._write("cgroup.procs", str(pid))

    def remove(self) -> None:
        """Moves the processes of this group and those below it to the parent, and removes the groups, if they exist."""
        if not self.directory.exists():
            return
        for child in self.children():
            child.remove()
        for _ in range(_SWEEPS):
            pids = self.processes()
            for pid in pids:
                self._return(pid)
            if not pids:
                break
        try:
            self.directory.rmdir()
        except OSError as error:
            raise CgroupError(f"cannot remove the cgroup {self.directory}: {error.strerror}") from error

    def _return(self, pid: int) -> None:
        try:
            (self.directory.parent / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise CgroupError(f"cannot move process {pid} to {self.directory.parent}: {error.strerror}") from error

    def _read(self, name: str) -> str:
        try:
            return (self.directory / name).read_text()
        except OSError as error:
            raise CgroupError(f"cannot read {self.directory / name}: {error.strerror}") from error

    def _write(self, name: str, text: str) -> None:
        try:
            (self.directory / name).write_text(text)
        except OSError as error:
            raise CgroupError(f"cannot write {text!r} to {self.directory / name}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The tree of groups that have the cpuset controller."""

    root: Path
    version: Literal[1, 2]

    def group(self, path: str) -> CpusetGroup:
        """Returns the group at a path below the root, `/` for the root itself."""
        return CpusetGroup(self.root / path.strip("/"), self.version)

    def of_process(self, pid: int, proc: Path = _PROC) -> CpusetGroup | None:
        """Returns the group of a process; None if the process has ended or its group is not mounted here."""
        try:
            lines = (proc / str(pid) / "cgroup").read_text().splitlines()
        except OSError:
            return None
        for line in lines:
            number, controllers, path = line.split(":", 2)
            if "cpuset" in controllers.split(",") if self.version == 1 else number == "0":
                return None if path.startswith("/..") else self.group(path)
        return None

    def make(self, path: str, cpus: Cpuset) -> CpusetGroup:
        """Makes a group with these CPUs and its missing parents; an existing group gets these CPUs."""
        directory = self.root
        names = [name for name in path.split("/") if name]
        for name in names:
            self._pass_on(directory)
            directory = directory / name
            self._make(directory)
        made = CpusetGroup(directory, self.version)
        made.confine(cpus)
        return made

    def walk(self, below: str = "") -> Iterator[CpusetGroup]:
        """Yields all groups below a path, parents before their children."""
        waiting = [self.group(below)]
        while waiting:
            group = waiting.pop()
            yield group
            waiting += reversed(group.children())

    def _make(self, directory: Path) -> None:
        try:
            directory.mkdir(exist_ok=True)
            if self.version == 1:
                for name in ("cpuset.cpus", "cpuset.mems"):
                    if not (directory / name).read_text().strip():
                        (directory / name).write_text((directory.parent / name).read_text())
        except OSError as error:
            raise CgroupError(f"cannot make the cgroup {directory}: {error.strerror}") from error

    def _pass_on(self, directory: Path) -> None:
        if self.version == 1:
            return
        control = directory / "cgroup.subtree_control"
        try:
            if "cpuset" not in control.read_text().split():
                control.write_text("+cpuset")
        except OSError as error:
            raise CgroupError(f"cannot pass on cpuset to the groups of {directory}: {error.strerror}") from error


def find_hierarchy(root: Path = CGROUP_ROOT) -> Hierarchy | None:
    """Returns the cpuset hierarchy; None if the machine has no cpuset controller or does not mount it here."""
    try:
        if "cpuset" in (root / "cgroup.controllers").read_text().split():
            return Hierarchy(root, 2)
    except OSError:
        pass
    if (root / "cpuset" / "cpuset.cpus").exists():
        return Hierarchy(root / "cpuset", 1)
    return None
