"""Configurations of sandboxes and containers: what the node agent asks a runtime for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    host_path: str
    container_path: str
    read_only: bool = False
    optional: bool = False
    """Left out where the runtime cannot mount, instead of refusing the container."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a container may do: its `securityContext`, but for users and groups. Seccomp is a path or `unconfined`."""

    privileged: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    run_as_non_root: bool = False
    seccomp: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of cpu in thousandths of one, of memory in bytes; None is unlimited."""

    cpu_millis: int | None = None
    cpu_request_millis: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """What the containers of a pod have in common. `hosts` are further lines of its /etc/hosts: names by address."""

    pod_uid: str
    namespace: str
    name: str
    hostname: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_processes: bool = False
    """Whether the containers of the pod see each other's processes."""
    hosts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    """For runtimes that give pods a network of their own."""
    cdi_devices: tuple[str, ...] = ()
    """All of the pod's claims, for what they do to the network of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """A container to start; `attempt` counts its restarts from 0. Environment and mounts are complete but for CDI."""

    pod_uid: str
    namespace: str
    pod_name: str
    name: str
    attempt: int
    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    working_dir: str = ""
    limits: Limits = Limits()
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    hostname: str = ""
    pull_policy: str = "IfNotPresent"
    security: Security = Security()
    target: str = ""
    """The container whose processes it sees, where the runtime keeps them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the machine that leads to one of a pod; without an address, on all of the machine."""

    host_port: int
    container_port: int
    protocol: str = "TCP"
    host_ip: str = ""
