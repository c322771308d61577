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
    """True to leave the mount out if the runtime cannot mount, instead of refusing the container."""


@dataclass(frozen=True, slots=True)
class Security:
    """The `securityContext` of a container without users and groups. `seccomp` is a path or `unconfined`."""

    privileged: bool = False
    added_capabilities: tuple[str, ...] = ()
    dropped_capabilities: tuple[str, ...] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    run_as_non_root: bool = False
    seccomp: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a container: cpu in millicores, memory in bytes; None is unlimited."""

    cpu_millis: int | None = None
    cpu_request_millis: int = 0
    memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """Configuration shared by the containers of a pod. `hosts` are further entries of /etc/hosts: names by address."""

    pod_uid: str
    namespace: str
    name: str
    hostname: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_processes: bool = False
    """True if the containers of the pod see each other's processes."""
    hosts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[HostPort, ...] = ()
    """Host ports, used by runtimes that give pods a network of their own."""
    cdi_devices: tuple[str, ...] = ()
    """CDI devices of all claims of the pod; only their edits of the pod's network apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerConfig:
    """A container to start; `attempt` counts its restarts from 0. Environment and mounts lack only the CDI edits."""

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
    """The container whose processes it sees, in runtimes with process namespaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A host port of a container; without `host_ip` it is open on all addresses of the machine."""

    host_port: int
    container_port: int
    protocol: str = "TCP"
    host_ip: str = ""
