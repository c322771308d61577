"""Holds containers of a kubelet to CPUs: those with claims to the claimed ones, all others to what no claim holds.

The published driver does this as a plugin of the container runtime. Here the driver looks through the cgroups of
pods and writes cpusets itself, so that it needs nothing of the runtime. Which claim a container uses is in the
environment that it was created with (`container_specs`), where CDI puts a variable. The variable counts only if the
claim is prepared here and reserved for the pod of the container, and the container gets the CPUs that were recorded,
not those in the variable. A sweep writes only what differs, so that it may run often. Containers start on shared CPUs
and move at the next sweep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.drivers.cpu.container_specs import ContainerSpecs
from dray.node.cpusets.cgroups import CgroupError, CpusetGroup, Hierarchy
from dray.node.cpusets.lists import Cpuset
from dray.node.cpusets.pinning import VARIABLE

_PODS: Final = re.compile(r"(?:.*-)?kubepods(?:\.slice)?")
_POD: Final = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12})(?:\.slice)?")
# A kubelet in a container keeps its pods some levels down.
_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class HeldCpus:
    """CPUs that a prepared claim holds, and the uids of its pods; None: any pod."""

    cpus: Cpuset
    pods: frozenset[str] | None


@dataclass(slots=True)
class Sweep:
    """Result of a sweep. `is_partial`: CPUs are offline, so containers must be checked again."""

    is_partial: bool = False
    pinned: int = 0
    shared: int = 0
    changed: int = 0
    problems: list[str] = field(default_factory=list)


class SharedPool:
    """`every` are the CPUs of the machine, reserved ones among them. Some may be offline by now, and others online."""

    def __init__(self, hierarchy: Hierarchy, every: Cpuset, specs: ContainerSpecs | None = None) -> None:
        self._hierarchy = hierarchy
        self._all = every
        self._specs = specs or ContainerSpecs()
        # Containers without a spec at the last sweep. One that is just being created may have none yet.
        self._without_spec: set[CpusetGroup] = set()

    def sweep(self, held: Mapping[str, HeldCpus]) -> Sweep:
        """Holds every container to its CPUs; `held` by uid of the claim."""
        online = self._online_now()
        done = Sweep(is_partial=not self._all <= online)
        before, self._without_spec = self._without_spec, set()
        every = self._all | online
        shared = every.difference(*(claim.cpus for claim in held.values()))
        for pod, container in self._containers():
            try:
                own = self._claimed_cpus(pod, container, held)
                done.pinned += bool(own)
                done.shared += not own
                self._hold(container, own or shared or every, online, done)
            except CgroupError as error:
                # It may have ended meanwhile.
                if container.directory.exists():
                    done.problems.append(str(error))
        for container in self._without_spec & before:
            done.problems.append(
                f"{container.directory}: no OCI spec of this container is found, and its pod has a claim"
            )
        return done

    def _online_now(self) -> Cpuset:
        try:
            return self._hierarchy.group("/").cpus()
        except CgroupError:
            return self._all

    def _hold(self, container: CpusetGroup, cpus: Cpuset, online: Cpuset, done: Sweep) -> None:
        if container.cpus() != cpus & online:
            container.confine(cpus)
            done.changed += 1

    def _containers(self) -> Iterator[tuple[str, CpusetGroup]]:
        """Yields the cpuset cgroup of each container, with the uid of its pod."""
        for pods in _below(self._hierarchy.group("/"), _PODS, _DEPTH):
            for pod in _below(pods, _POD, _DEPTH):
                match = _POD.fullmatch(pod.directory.name)
                assert match is not None
                uid = match[1].replace("_", "-")
                for container in pod.children():
                    yield uid, container

    def _claimed_cpus(self, pod: str, container: CpusetGroup, held: Mapping[str, HeldCpus]) -> Cpuset:
        """Returns the CPUs of all claims that the container uses; empty if it uses none."""
        of_pod = {uid: each.cpus for uid, each in held.items() if each.pods is None or pod in each.pods}
        if not of_pod:
            return frozenset()
        environment = self._specs.environment(container)
        if environment is None:
            if container.processes():
                self._without_spec.add(container)
            return frozenset()
        return frozenset().union(*(of_pod.get(uid, frozenset()) for uid in _named_claims(environment)))


def _named_claims(environment: Iterable[str]) -> Iterator[str]:
    for entry in environment:
        name = entry.partition("=")[0]
        if name.startswith(VARIABLE):
            yield name.removeprefix(VARIABLE)


def _below(group: CpusetGroup, name: re.Pattern[str], depth: int) -> Iterator[CpusetGroup]:
    """The groups of that name, not looked for in each other."""
    for child in group.children() if depth else ():
        if name.fullmatch(child.directory.name):
            yield child
        else:
            yield from _below(child, name, depth - 1)
