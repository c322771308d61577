"""CDI edits of a container or a sandbox: found before it is started. What is wrong with them is a StartError."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from dray.driver.cdi.edits import DeviceNode
from dray.node import cdi
from dray.node.cpusets.lists import Cpuset
from dray.node.cpusets.pinning import PinningError, claimed_cpus
from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.interface import StartError


def edits_of(config: ContainerConfig | SandboxConfig, directories: Sequence[Path]) -> cdi.Edits:
    try:
        return cdi.resolve(config.cdi_devices, directories)
    except cdi.CdiError as error:
        reason = "CreateContainerError" if isinstance(config, ContainerConfig) else "FailedCreatePodSandBox"
        raise StartError(reason, str(error)) from None


def is_pipe(node: DeviceNode) -> bool:
    """Rather than a device; nothing else may be given to a container as one."""
    host = node.host_path or node.path
    try:
        kind = os.stat(host).st_mode
    except OSError as error:
        raise StartError("CreateContainerError", f"device {host}: {error.strerror}") from None
    if not (stat.S_ISCHR(kind) or stat.S_ISBLK(kind) or stat.S_ISFIFO(kind)):
        raise StartError("CreateContainerError", f"device {host}: not a device file")
    return stat.S_ISFIFO(kind)


def cpus_of(edits: cdi.Edits) -> Cpuset:
    """By what CDI puts into the environment alone: a pod cannot name CPUs that it has not claimed."""
    try:
        return claimed_cpus(edits.environment)
    except PinningError as error:
        raise StartError("CreateContainerError", str(error)) from error
