"""Specification of a container for its shim: everything the process is to have, with CDI edits applied."""

from __future__ import annotations

import os
import pwd
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.driver.cdi.edits import DeviceNode
from dray.driver.cdi.edits import Mount as CdiMount
from dray.node.cdi import Edits
from dray.node.cgroups import Cgroup
from dray.node.runtimes import log_rotation
from dray.node.runtimes.cdi_edits import cpus_of, is_pipe, made_device
from dray.node.runtimes.configs import ContainerConfig, Mount
from dray.node.runtimes.interface import StartError

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO_GROUP: Final = 65534


def container_spec(
    config: ContainerConfig,
    argv: list[str],
    edits: Edits,
    directory: Path,
    cgroup: Cgroup,
    hidden: list[str],
) -> dict[str, Any]:
    """Returns the specification for the shim; `hidden` are device files that the container must not see."""
    if config.security.run_as_non_root and config.user is None and os.geteuid() == 0:
        problem = "container has runAsNonRoot and image will run as root"
        message = f"{problem} (container: {config.name}); give it a runAsUser that is not 0"
        raise StartError("CreateContainerConfigError", message)
    mounts = [*config.mounts, *map(_mount, edits.mounts), *_device_mounts(edits.device_nodes)]
    last = {mount.container_path: _mount_spec(mount) for mount in mounts}
    last |= _made_devices(edits.device_nodes)
    environment = {"PATH": _path(), "HOME": _home_of(config.user), "HOSTNAME": config.hostname}
    environment |= config.environment
    environment |= edits.environment
    if edits.net_devices:
        names = ", ".join(device.host_interface_name for device in edits.net_devices)
        raise StartError("CreateContainerError", f"interfaces {names}: a process shares the network of this machine")
    return {
        "pod_uid": config.pod_uid,
        "name": config.name,
        "attempt": config.attempt,
        "image": config.image,
        "argv": argv,
        "environment": environment,
        "hostname": config.hostname,
        "working_dir": config.working_dir or _home(directory),
        # Only the agent's user can enter the directories above the container's default working directory.
        "enters_as_agent": not config.working_dir,
        "no_new_privileges": config.security.no_new_privileges,
        "mounts": list(last.values()),
        "hidden": hidden,
        "stage": str(directory / "stage"),
        "cgroups": [str(group) for group in cgroup.directories],
        "cpus": sorted(cpus_of(edits)),
        "user": config.user,
        "group": config.group if config.group is not None else _group_of(config.user),
        "groups": [*config.groups, *edits.groups],
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "log_path": str(config.log_path),
        "log_size": log_rotation.SIZE,
        "log_files": log_rotation.FILES,
        "poststop": [msgspec.structs.asdict(hook) for hook in edits.hooks if hook.hook_name == "poststop"],
    }


def _home_of(user: int | None) -> str:
    """Returns the home directory of an account of the machine; `/` for a number without an account."""
    if user in (None, 0):
        return "/root"
    try:
        return pwd.getpwuid(user or 0).pw_dir
    except KeyError:
        return "/"


def _group_of(user: int | None) -> int | None:
    """Returns the group of an account of the machine. A number without an account does not get the group of root."""
    if user in (None, 0):
        return None
    try:
        return pwd.getpwuid(user or 0).pw_gid
    except KeyError:
        return _NO_GROUP


def _path() -> str:
    """Returns the PATH: that of the agent first, so that programs installed for its user are found."""
    return ":".join(dict.fromkeys([*os.environ.get("PATH", _PATH).split(":"), *_PATH.split(":")]))


def _home(directory: Path) -> str:
    """Makes the default working directory of the container, and returns its path."""
    home = directory / "work"
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    return str(home)


def _mount(mount: CdiMount) -> Mount:
    return Mount(mount.host_path, mount.container_path, "ro" in mount.options)


def _device_mounts(nodes: tuple[DeviceNode, ...]) -> list[Mount]:
    """Returns mounts for device files that have another path in the container than on the host."""
    for node in nodes:
        is_pipe(node)  # Raises for what is neither a device nor a pipe.
    return [
        Mount(node.host_path, node.path)
        for node in nodes
        if (node.host_path or node.path) != node.path and made_device(node) is None
    ]


def _made_devices(nodes: tuple[DeviceNode, ...]) -> dict[str, dict[str, Any]]:
    """Returns the device files that the shim makes for the container, by path."""
    found = ((node.path, made_device(node)) for node in nodes)
    return {path: {**asdict(Mount("", path)), "device": asdict(device)} for path, device in found if device is not None}


def _mount_spec(mount: Mount) -> dict[str, Any]:
    if not os.path.exists(mount.host_path):
        raise StartError("CreateContainerError", f"mount {mount.container_path}: {mount.host_path} does not exist")
    return asdict(mount)
