"""Shared CPUs: those that no claim of the node holds. Containers without CPUs of their own stay on them.

A container is held by its cpuset control group. Where this process may write none, its processes are held by CPU
affinity, which they can change themselves; the log says so. If claims hold all CPUs, other containers run on all of
them, because they have to run somewhere; the log says that too.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from dray.node import cdi
from dray.node.cpusets.cgroups import CgroupError, CpusetGroup, find_hierarchy
from dray.node.cpusets.lists import Cpuset, format_cpuset
from dray.node.cpusets.pinning import PinningError, claimed_cpus, set_affinity

_logger = logging.getLogger(__name__)
_ALL_CLAIMED: Final = (
    "claims hold all CPUs (%s): pods without a claim run on them too; keep CPUs for these pods with "
    "--driver cpu:reservedCPUs=0"
)
_BY_AFFINITY: Final = (
    "no cpuset control groups that this user may write: pods without a claim are kept off claimed CPUs by affinity, "
    "which their processes can change"
)


class SharedCpus:
    def __init__(self, directories: Sequence[Path]) -> None:
        """`directories` have the CDI specs, which map devices of claims to CPUs."""
        self._directories = tuple(directories)
        self._online: Cpuset = frozenset(os.sched_getaffinity(0))
        self._hierarchy = find_hierarchy()
        self._by_device: dict[str, Cpuset] = {}
        self._claimed: Cpuset = frozenset()
        self._before: Cpuset | None = None
        """Shared CPUs at the last call of `follow`.

        None before it: an earlier agent may have restricted containers.
        """
        self._warned: set[str] = set()

    @property
    def cpus(self) -> Cpuset:
        """Returns the CPUs for containers without claimed CPUs."""
        return self._online - self._claimed or self._online

    @property
    def are_limited(self) -> bool:
        return self.cpus != self._online

    def follow(self, cdi_ids: Iterable[str]) -> bool:
        """Sets the CDI devices of all prepared claims. Returns True if the shared CPUs have changed."""
        ids = set(cdi_ids)
        self._by_device = {device_id: cpus for device_id, cpus in self._by_device.items() if device_id in ids}
        if new := ids - self._by_device.keys():
            told = cdi.environments(new, self._directories)
            self._by_device |= {device_id: _cpus_of(told.get(device_id, {})) for device_id in new}
        before = self._before
        self._claimed = frozenset().union(*self._by_device.values())
        if self._claimed >= self._online:
            self._warn(_ALL_CLAIMED, format_cpuset(self._online))
        self._before = self.cpus
        return self.cpus != before

    def group(self, path: str) -> CpusetGroup | None:
        """Returns the cpuset group at a path; None if there is none, or the path is empty."""
        found = self._hierarchy.group(path) if self._hierarchy is not None and path else None
        return found if found is not None and (found.directory / "cpuset.cpus").exists() else None

    def hold(self, path: str, cpus: Cpuset, processes: Callable[[], Iterable[int]]) -> bool:
        """Restricts a container to CPUs by its control group, or else its processes by affinity.

        Returns True if the control group enforces it.
        """
        try:
            if (group := self.group(path)) is not None:
                if group.cpus() != cpus:
                    group.confine(cpus)
                return True
        except CgroupError as error:
            _logger.debug("%s", error)
        if cpus != self._online:
            self._warn(_BY_AFFINITY)
        for pid in processes():
            try:
                set_affinity(pid, cpus)
            except PinningError as error:
                _logger.warning("%s", error)
        return False

    def _warn(self, message: str, *arguments: object) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _logger.warning(message, *arguments)


def _cpus_of(environment: Mapping[str, str]) -> Cpuset:
    try:
        return claimed_cpus(environment)
    except PinningError:
        # The container that uses the device reports the error.
        return frozenset()
