"""Runtime: the contract between the node agent and what runs containers.

The agent decides what runs, when and how often; a runtime starts a container, tells how it fares, stops it. Containers
outlive the agent: an agent that starts again finds them with `containers`. The names follow the Container Runtime
Interface of Kubernetes. A container that cannot be started raises `StartError`, whose reason and message become the
waiting state of its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dray.node.runtimes.configs import ContainerConfig, Limits, SandboxConfig


class StartError(Exception):
    """Raised if a container cannot be started; `reason` is a kubelet's word, such as CreateContainerError."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The sandbox of a pod: its IP address and, in runtimes that make one, its network namespace."""

    id: str
    ip: str
    network_namespace: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """State of a container. Times are seconds since the epoch; `exit_code` is None while it runs."""

    id: str
    pod_uid: str
    name: str
    attempt: int
    started_at: float
    finished_at: float = 0.0
    exit_code: int | None = None
    signal: int = 0
    oom_killed: bool = False
    image: str = ""
    image_id: str = ""
    warning: str = ""
    """A warning for the user, which becomes an event of the pod; empty if there is none."""

    @property
    def running(self) -> bool:
        return self.exit_code is None


class Usage(NamedTuple):
    """Usage of a container: cpu in nanoseconds since its start, memory in bytes."""

    cpu_nanoseconds: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """An image on the machine: all its names, and its size in bytes."""

    names: tuple[str, ...]
    size: int


class Streams(Protocol):
    """The client's end of an `exec` or `attach`: an input, an output and terminal sizes.

    `output` gets (1, stdout) and (2, stderr); it may wait, which slows the process down instead of using memory.
    `read_input` returns b"" at the end of the input. `resizes` yields (columns, rows) of a terminal.
    """

    async def output(self, stream: int, data: bytes) -> None: ...

    async def read_input(self) -> bytes: ...

    @property
    def resizes(self) -> asyncio.Queue[tuple[int, int]]: ...


class Runtime(Protocol):
    name: str

    async def version(self) -> str:
        """Returns name and version, such as podman://4.3.1; raises StartError if the runtime cannot work here."""

    async def run(self) -> None:
        """Does background work, such as rotating logs, until it is cancelled."""

    async def images(self) -> list[Image]: ...

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        """Makes the sandbox of a pod, or returns the existing one. Raises StartError."""

    async def pods(self) -> set[str]:
        """Returns the uids of pods that have a sandbox or containers, including those of an earlier agent."""

    async def stop_sandbox(self, pod_uid: str) -> None:
        """Releases what only a running pod needs, such as its network. Call it when none of its containers runs."""

    async def end_pod(self, pod_uid: str) -> bool:
        """Kills the containers of the pod and keeps the records of how they ended. Returns True if one was running."""

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Kills and removes all containers and the sandbox of the pod. Ignores unknown pods."""

    async def follow_claims(self, cdi_ids: Iterable[str]) -> None:
        """Sets the CDI devices of all claims prepared on the node.

        Containers without claimed CPUs, present and later ones, do not run on the CPUs of these devices.
        """

    async def start(self, config: ContainerConfig) -> ContainerState:
        """Starts the container; when it returns, the process runs or has run. Raises StartError."""

    async def containers(self) -> list[ContainerState]:
        """Returns all containers that were started and not removed, including those of an earlier agent."""

    async def wait(self, container_id: str) -> ContainerState:
        """Waits until the container has ended, and returns its state."""

    async def signal(self, container_id: str, number: int) -> None:
        """Sends the signal to all processes of the container; does nothing if it has ended."""

    async def stop(self, container_id: str, grace: float, number: int = 15) -> ContainerState:
        """Sends the signal `number`, and kills the container after `grace` seconds. Returns its state."""

    async def remove(self, container_id: str) -> None:
        """Removes a container that has ended."""

    async def exec(
        self, container_id: str, command: Sequence[str], streams: Streams, *, tty: bool = False, stdin: bool = False
    ) -> int:
        """Runs a command in the container and returns its exit code. Raises StartError if it cannot be run."""

    async def attach(self, container_id: str, streams: Streams, *, stdin: bool = False) -> None:
        """Connects the streams to output and input of the container until either ends; earlier output is not sent."""

    async def resize(self, container_id: str, limits: Limits) -> None:
        """Changes the limits of a running container; if the system refuses, the old limits stay."""

    async def usage(self, container_id: str) -> Usage | None: ...

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to a port that a container of the pod listens on."""
