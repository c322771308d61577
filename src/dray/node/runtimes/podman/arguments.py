"""Arguments of `podman run` for a container: what Kubernetes means, in podman's words, with CDI edits applied.

The edits are applied here and not by podman's own CDI support: podman 4.3 reads /etc/cdi and /var/run/cdi alone and
refuses specs of CDI 0.6 and later, and what a claim gave must be the same in every runtime.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dray.driver.cdi.edits import DeviceNode
from dray.driver.cdi.edits import Mount as CdiMount
from dray.node.cdi import Edits
from dray.node.cgroups import cpu_quota, cpu_shares
from dray.node.cpusets.lists import Cpuset, format_cpuset
from dray.node.runtimes.cdi_edits import MadeDevice, cpus_of, is_pipe, made_device
from dray.node.runtimes.configs import ContainerConfig, Limits, Mount, Security
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman import labels
from dray.node.runtimes.podman.command import limit_arguments

# Switch off what podman adds by default: health checks, proxy variables, host names, systemd in the container.
_PLAIN: Final = ("--no-healthcheck", "--http-proxy=false", "--no-hosts", "--systemd=false", "--sdnotify=ignore")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_LONGEST_VALUE: Final = 32 << 10
_MOUNT_OPTIONS: Final = ("ro", "nosuid", "nodev", "noexec")
# Podman reads a mount as a line of comma-separated values.
_UNTAKEN: Final = frozenset(',"\n\r')
_PROPAGATIONS: Final = ("private", "rprivate", "shared", "rshared", "slave", "rslave")


def run_arguments(
    config: ContainerConfig,
    sharing: list[str],
    edits: Edits,
    image_user: str,
    *,
    root: Path,
    directory: Path,
    shared_cpus: Cpuset = frozenset(),
) -> list[str]:
    """Returns the arguments of `podman run`.

    `sharing` has the arguments for the namespaces of the pod; `directory` is private and only for this container. A
    container without claimed CPUs starts on `shared_cpus`, if there are any. Raises StartError for settings that podman
    does not support.
    """
    if edits.net_devices:
        names = ", ".join(device.host_interface_name for device in edits.net_devices)
        raise StartError("CreateContainerError", f"interfaces {names}: podman does not move interfaces into containers")
    name = f"k8s_{config.name}_{config.pod_name}_{config.namespace}_{config.pod_uid}_{config.attempt}"
    arguments = [
        *(
            "run",
            "--detach",
            "--replace",
            "--pull=never",
            "--name",
            name,
            *labels.arguments(_labels(config, root, directory)),
        ),
        *("--cgroup-parent", f"/dray/{config.pod_uid}", *_PLAIN, *limit_arguments(), *sharing),
        *("--log-driver", "k8s-file", "--log-opt", f"path={config.log_path}"),
        *_environment(config, edits, directory),
        *_mounts(config.mounts, edits),
        *_devices(edits.device_nodes, directory),
        *_resources(config.limits, edits, shared_cpus),
        *_security(config.security),
        *_user(config, edits, image_user),
    ]
    if config.working_dir:
        arguments += ["--workdir", config.working_dir]
    if config.tty:
        arguments.append("--tty")
    if config.stdin:
        arguments.append("--interactive")
    if config.command:
        # This form replaces both ENTRYPOINT and CMD of the image. The rest of the command is passed as separate
        # arguments, each of which has its own length limit.
        arguments += ["--entrypoint", json.dumps(config.command[:1])]
    return [*arguments, config.image, *config.command[1:], *config.args]


def _labels(config: ContainerConfig, root: Path, directory: Path) -> dict[str, str]:
    return {
        labels.ROOT: str(root),
        labels.POD_UID: config.pod_uid,
        labels.POD_NAMESPACE: config.namespace,
        labels.POD_NAME: config.pod_name,
        labels.CONTAINER: config.name,
        labels.ATTEMPT: str(config.attempt),
        labels.LOG: str(config.log_path),
        labels.DIRECTORY: str(directory),
        labels.STDIN_ONCE: "true" if config.stdin_once else "false",
    }


def _environment(config: ContainerConfig, edits: Edits, directory: Path) -> list[str]:
    """Writes the variables to a file, because all users may see the arguments of a process.

    Variables that such a file cannot hold are passed as arguments.
    """
    values: Mapping[str, str] = {"HOSTNAME": config.hostname, **config.environment, **edits.environment}
    lines, others = [], []
    for name, value in values.items():
        plain = _PLAIN_NAME.fullmatch(name) and len(value) <= _LONGEST_VALUE and value[:1] not in ("'", '"', "`")
        if plain and "\n" not in value and "\r" not in value:
            lines.append(f"{name}={value}\n")
        else:
            others += ["--env", f"{name}={value}"]
    path = directory / "environment"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write("".join(lines).encode(errors="surrogateescape"))
    return ["--env-file", str(path), *others]


def _mounts(given: Iterable[Mount], edits: Edits) -> list[str]:
    """Returns the mount arguments; of several mounts at one path, the last one is used."""
    found = {mount.container_path: _bind(mount.host_path, mount.container_path, mount.read_only) for mount in given}
    found |= {mount.container_path: _edited(mount) for mount in edits.mounts}
    found |= {
        device.path: _bind(device.host_path or device.path, device.path)
        for device in edits.device_nodes
        if is_pipe(device)
    }
    return [part for each in found.values() for part in ("--mount", each)]


def _bind(source: str, target: str, read_only: bool = False, options: Iterable[str] = ()) -> str:
    if not os.path.exists(source):
        raise StartError("CreateContainerError", f"mount {target}: {source} does not exist")
    if not _UNTAKEN.isdisjoint(source + target):
        problem = "podman takes no path with a comma, a quotation mark or a line break"
        raise StartError("CreateContainerError", f"mount {source!r} at {target!r}: {problem}")
    chosen = list(dict.fromkeys([*(("ro",) if read_only else ()), *options]))
    return ",".join(["type=bind", f"source={os.path.abspath(source)}", f"target={target}", *chosen])


def _edited(mount: CdiMount) -> str:
    if mount.type not in ("", "bind", "none"):
        raise StartError("CreateContainerError", f"mount {mount.container_path}: of type {mount.type}")
    options = [option for option in mount.options if option in _MOUNT_OPTIONS]
    options += [f"bind-propagation={option}" for option in mount.options if option in _PROPAGATIONS]
    return _bind(mount.host_path, mount.container_path, options=options)


def _devices(nodes: Iterable[DeviceNode], directory: Path) -> list[str]:
    found: list[str] = []
    for index, node in enumerate(nodes):
        if is_pipe(node):
            continue
        made = made_device(node)
        host = node.host_path or node.path if made is None else _make(made, directory / f"device-{index}", node.path)
        found += ["--device", f"{host}:{node.path}:{node.permissions or 'rwm'}"]
    return found


def _make(device: MadeDevice, path: Path, named: str) -> str:
    """Makes a device file from which podman reads type and numbers; the container gets a device file of its own."""
    try:
        path.unlink(missing_ok=True)
        os.mknod(path, device.mode, device.number)
        # chmod, because the umask applies to mknod.
        os.chmod(path, device.mode & 0o777)
        os.chown(path, device.user, device.group)
    except OSError as error:
        raise StartError("CreateContainerError", f"device {named} cannot be made: {error.strerror}") from None
    return str(path)


def _resources(limits: Limits, edits: Edits, shared_cpus: Cpuset) -> list[str]:
    found = ["--cpu-shares", str(cpu_shares(limits))]
    if quota := cpu_quota(limits):
        found += ["--cpu-period", str(quota[1]), "--cpu-quota", str(quota[0])]
    if limits.memory:
        found += ["--memory", str(limits.memory), "--memory-swap", str(limits.memory)]
    cpus = cpus_of(edits)
    if not cpus:
        found += labels.arguments({labels.SHARED_CPUS: "true"})
    return [*found, "--cpuset-cpus", format_cpuset(cpus or shared_cpus)] if cpus or shared_cpus else found


def _security(security: Security) -> list[str]:
    found = ["--security-opt", "label=disable"]
    if security.privileged:
        found.append("--privileged")
    for capability in security.dropped_capabilities:
        found += ["--cap-drop", capability]
    for capability in security.added_capabilities:
        found += ["--cap-add", capability]
    if security.read_only_root:
        found += ["--read-only", "--read-only-tmpfs=false"]
    if security.no_new_privileges:
        found += ["--security-opt", "no-new-privileges"]
    if security.seccomp:
        found += ["--security-opt", f"seccomp={security.seccomp}"]
    return found


def _user(config: ContainerConfig, edits: Edits, image_user: str) -> list[str]:
    user = str(config.user) if config.user is not None else image_user.partition(":")[0]
    if config.security.run_as_non_root and config.user is None and not (user.isdigit() and int(user)):
        named = user not in ("", "0", "root")
        problem = f"image has non-numeric user ({user})" if named else "image will run as root"
        message = (
            f"container has runAsNonRoot and {problem} (container: {config.name}); give it a runAsUser that is not 0"
        )
        raise StartError("CreateContainerConfigError", message)
    found = []
    if config.group is not None:
        found = ["--user", f"{user or 0}:{config.group}"]
    elif config.user is not None:
        found = ["--user", user]
    return [*found, *(part for each in (*config.groups, *edits.groups) for part in ("--group-add", str(each)))]
