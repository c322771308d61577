"""Containers of a kubelet held to CPUs: those with claims to theirs, all others to what no claim holds.

The published driver does this as a plugin of the container runtime. Here the driver looks through the cgroups of
pods and writes cpusets itself, so that it needs nothing of the runtime. A container says by the variable that CDI put
into its environment which claim it uses; it is believed only if the claim is prepared here and reserved for the pod
whose cgroup it lives in, and it gets the CPUs that were recorded, not those it names. A sweep writes only what
differs, so that it may run often. Containers start on shared CPUs and move at the next sweep.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dray.node.cpusets.cgroups import CgroupError, CpusetGroup, Hierarchy
from dray.node.cpusets.lists import Cpuset
from dray.node.cpusets.pinning import VARIABLE

_PODS: Final = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
_POD: Final = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12})(?:\.slice)?")
# A kubelet in a container keeps its pods some levels down.
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class HeldCpus:
    """What a prepared claim holds, and for which pods; for any where `pods` is None."""

    cpus: Cpuset
    pods: frozenset[str] | None


@dataclass(slots=True)
class Sweep:
    """What a sweep found and did."""

    pinned: int = 0
    shared: int = 0
    changed: int = 0
    problems: list[str] = field(default_factory=list)


class SharedPool:
    """`online` are all CPUs of the machine, reserved ones among them."""

    def __init__(self, hierarchy: Hierarchy, online: Cpuset, proc: Path = Path("/proc")) -> None:
        self._hierarchy = hierarchy
        self._online = online
        self._proc = proc

    def sweep(self, held: Mapping[str, HeldCpus]) -> Sweep:
        """Holds every container to its CPUs; `held` by uid of the claim."""
        done = Sweep()
        shared = self._online.difference(*(each.cpus for each in held.values()))
        for pod, container in self._containers():
            try:
                own = self._own(pod, container, held)
                done.pinned += bool(own)
                done.shared += not own
                self._hold(container, own or shared or self._online, done)
            except CgroupError as error:
                # It may have ended meanwhile.
                if container.directory.exists():
                    done.problems.append(str(error))
        return done

    def _hold(self, container: CpusetGroup, cpus: Cpuset, done: Sweep) -> None:
        if container.cpus() != cpus:
            container.confine(cpus)
            done.changed += 1

    def _containers(self) -> Iterator[tuple[str, CpusetGroup]]:
        """With the uid of their pods."""
        for pods in _below(self._hierarchy.group("/"), _PODS, _DEPTH):
            for pod in _below(pods, _POD, _DEPTH):
                match = _POD.fullmatch(pod.directory.name)
                assert match is not None
                uid = match[1].replace("_", "-")
                for container in pod.children():
                    yield uid, container

    def _own(self, pod: str, container: CpusetGroup, held: Mapping[str, HeldCpus]) -> Cpuset:
        named = {claim for pid in container.processes()[:1] for claim in self._claims(pid)}
        believed = (held[claim] for claim in named if claim in held)
        return frozenset().union(*(each.cpus for each in believed if each.pods is None or pod in each.pods))

    def _claims(self, pid: int) -> Iterator[str]:
        try:
            environment = (self._proc / str(pid) / "environ").read_bytes()
        except OSError:
            return
        prefix = VARIABLE.encode()
        for entry in environment.split(b"\0"):
            if entry.startswith(prefix):
                yield entry.partition(b"=")[0].removeprefix(prefix).decode(errors="replace")


def _below(group: CpusetGroup, name: re.Pattern[str], depth: int) -> Iterator[CpusetGroup]:
    """The groups of that name, not looked for in each other."""
    for child in group.children() if depth else ():
        if name.fullmatch(child.directory.name):
            yield child
        else:
            yield from _below(child, name, depth - 1)
