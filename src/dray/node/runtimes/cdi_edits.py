"""CDI edits of a container or a sandbox: found before it is started. What is wrong with them is a StartError."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.driver.cdi.edits import DeviceNode
from dray.node import cdi
from dray.node.cpusets.lists import Cpuset
from dray.node.cpusets.pinning import PinningError, claimed_cpus
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.interface import StartError

# Device types by their names in CDI; `u` is an older name for character devices.
_TYPES: Final = {"c": stat.S_IFCHR, "u": stat.S_IFCHR, "b": stat.S_IFBLK}
_PERMISSIONS: Final = 0o666


def edits_of(config: ContainerConfig | SandboxConfig, directories: Sequence[Path]) -> cdi.Edits:
    try:
        return cdi.resolve(config.cdi_devices, directories)
    except cdi.CdiError as error:
        reason = "CreateContainerError" if isinstance(config, ContainerConfig) else "FailedCreatePodSandBox"
        raise StartError(reason, str(error)) from None


def is_pipe(node: DeviceNode) -> bool:
    """Returns False for a device; raises StartError if the node is neither a pipe nor a device."""
    if made_device(node) is not None:
        return False
    host = node.host_path or node.path
    try:
        kind = os.stat(host).st_mode
    except OSError as error:
        raise StartError("CreateContainerError", f"device {host}: {error.strerror}") from None
    if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind) or stat.S_ISFIFO(kind)):
        raise StartError("CreateContainerError", f"device {host}: not a device file")
    return stat.S_ISFIFO(kind)


@dataclass(frozen=True, slots=True)
class MadeDevice:
    """A device file that is made for a container: `mode` has its type and permissions, `number` major and minor."""

    mode: int
    number: int
    user: int
    group: int


def made_device(node: DeviceNode) -> MadeDevice | None:
    """Returns the device file to make if CDI gives the numbers and the host has no such file; None otherwise.

    MIG capabilities are an example: their files need not exist on the host.
    """
    kind = _TYPES.get(node.type)
    if kind is None or node.major is None:
        return None
    number = os.makedev(node.major, node.minor or 0)
    try:
        found = os.stat(node.host_path or node.path)
    except OSError:
        pass
    else:
        if stat.S_IFMT(found.st_mode) == kind and found.st_rdev == number:
            return None
    permissions = _PERMISSIONS if node.file_mode is None else node.file_mode & 0o777
    return MadeDevice(kind | permissions, number, node.uid or 0, node.gid or 0)


def cpus_of(edits: cdi.Edits) -> Cpuset:
    """Returns the claimed CPUs, read only from variables set by CDI: a pod cannot name CPUs that it has not claimed."""
    try:
        return claimed_cpus(edits.environment)
    except PinningError as error:
        raise StartError("CreateContainerError", str(error)) from error
