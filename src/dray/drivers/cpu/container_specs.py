"""Reads the environment that containers were created with, from their OCI specs.

Processes of a container may change their environment: a shell that execs a program drops variables whose names it
cannot hold. The OCI spec is written by the container runtime before the container has a cgroup, and stays until the
container is deleted. containerd and CRI-O keep it in a directory named after the container.

`DIRECTORIES` has the usual places. They are looked up in the root of this process and in that of the machine's first
process, so that a driver in a container with `hostPID` needs no further mounts. A runtime with another state
directory is found through the process that monitors the container (containerd's shim, conmon): its working directory,
or one of its arguments, is the bundle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.api.objects import mapping, strings
from dray.node.cpusets.cgroups import CpusetGroup
from dray.process.beneath import PROCESS_BYTES, read_regular, read_start

DIRECTORIES: Final = (
    "/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}",
    "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/{id}",
    "/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}",
    "/run/containers/storage/overlay-containers/{id}/userdata",
    "/var/lib/containers/storage/overlay-containers/{id}/userdata",
)
_LARGEST: Final = 16 << 20
_PROC: Final = Path("/proc")
# CRI-O gives monitors groups of their own, named after the container as well: `crio-conmon-<id>.scope`.
_MONITOR: Final = "conmon"
# More ancestors than a process of a container has in practice; a limit, since processes end during the walk.
_MOST_ANCESTORS: Final = 1000


class ContainerSpecs:
    def __init__(self, directories: Sequence[str] = DIRECTORIES, proc: Path = _PROC) -> None:
        self._directories = directories
        self._proc = proc

    def environment(self, container: CpusetGroup) -> list[str] | None:
        """Variables as `NAME=value`, as the runtime set them; None if no spec of the container is found."""
        if _MONITOR in container.directory.name:
            return []
        container_id = _id_of(container)
        for path in (*self._usual_places(container_id), *self._places_of_monitor(container, container_id)):
            try:
                spec = msgspec.json.decode(read_regular(path / "config.json", _LARGEST, links=True))
            except (OSError, msgspec.DecodeError, RecursionError):
                continue
            return _environment(spec)
        return None

    def _usual_places(self, container_id: str) -> Iterator[Path]:
        for directory in self._directories:
            path = directory.format(id=container_id)
            yield from (Path(path), self._proc / "1/root" / path.lstrip("/"))

    def _places_of_monitor(self, container: CpusetGroup, container_id: str) -> Iterator[Path]:
        monitor = self._monitor(container)
        if not monitor:
            return
        process = self._proc / str(monitor)
        try:
            working_directory = os.readlink(process / "cwd")
            arguments = read_start(process / "cmdline", PROCESS_BYTES).split(b"\0")
        except OSError:
            return
        if container_id in working_directory.split("/"):
            yield process / "cwd"
        # The shim of containerd serves a whole pod: it runs in the bundle of the sandbox, beside those of containers.
        yield process / "cwd" / ".." / container_id
        for argument in map(os.fsdecode, arguments):
            if argument.startswith("/") and container_id in argument.split("/"):
                yield process / "root" / argument.lstrip("/")

    def _monitor(self, container: CpusetGroup) -> int:
        """The nearest ancestor of a process that is not in the container; 0 if there is none."""
        # Without hostPID, processes of containers have the number 0.
        inside = set(_processes(container)) - {0}
        process = min(inside, default=0)
        for _ in range(_MOST_ANCESTORS):
            if process not in inside:
                return process
            process = self._parent(process)
        return 0

    def _parent(self, process: int) -> int:
        try:
            status = (self._proc / str(process) / "status").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")), 0)


def _id_of(container: CpusetGroup) -> str:
    """Returns the id in names such as `<id>`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>`."""
    return container.directory.name.removesuffix(".scope").rpartition("-")[2]


def _processes(container: CpusetGroup) -> Iterator[int]:
    """Yields all processes, those that an init system in the container has moved into groups below included."""
    yield from container.processes()
    for child in container.children():
        yield from _processes(child)


def _environment(spec: Any) -> list[str]:
    return strings(mapping(mapping(spec).get("process")).get("env"))
