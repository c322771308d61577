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
    """A container that cannot be started: `reason` is one of the kubelet's words, such as CreateContainerError."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod on the machine: its address, and for runtimes that have one, its network namespace."""

    id: str
    ip: str
    network_namespace: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """How a container fares. Times are seconds since the epoch; `exit_code` is None while it runs."""

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
    """Of a container: cpu in nanoseconds since its start, memory in bytes."""

    cpu_nanoseconds: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Image:
    """On the machine: all names that it has, and its size in bytes."""

    names: tuple[str, ...]
    size: int


class Streams(Protocol):
    """The other end of an `exec` or `attach`: bytes in, bytes out, in order, with an end on each side.

    `output` gets (1, stdout) and (2, stderr); it may wait, which slows the process down instead of piling bytes up.
    `read_input` returns b"" at the end of the input. `resizes` yields (columns, rows) of a terminal.
    """

    async def output(self, stream: int, data: bytes) -> None: ...

    async def read_input(self) -> bytes: ...

    @property
    def resizes(self) -> asyncio.Queue[tuple[int, int]]: ...


class Runtime(Protocol):
    name: str

    async def version(self) -> str:
        """Such as podman://4.3.1; raises StartError where the runtime cannot work on this machine."""

    async def run(self) -> None:
        """What is to be done while the agent runs, such as rotating logs. Until it is cancelled."""

    async def images(self) -> list[Image]: ...

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        """Of a pod that has one, the same again. Raises StartError."""

    async def pods(self) -> set[str]:
        """Uids of those of which anything is left, also by an earlier agent."""

    async def stop_sandbox(self, pod_uid: str) -> None:
        """Gives back what only a pod that runs needs, such as its network. None of its containers runs any more."""

    async def end_pod(self, pod_uid: str) -> bool:
        """Kills the containers of the pod and keeps the records of how they ended. Returns True if one was running."""

    async def remove_sandbox(self, pod_uid: str) -> None:
        """With all containers of the pod, which are killed. Unknown pods are fine."""

    async def follow_claims(self, cdi_ids: Iterable[str]) -> None:
        """Takes the CDI devices of all claims that are prepared on the node. Containers without CPUs of a claim are
        kept off the CPUs that these devices hold, those that run and those that start later."""

    async def start(self, config: ContainerConfig) -> ContainerState:
        """Once it returns the process runs, or has run. Raises StartError."""

    async def containers(self) -> list[ContainerState]:
        """All that were started and not removed, also by an earlier agent."""

    async def wait(self, container_id: str) -> ContainerState:
        """Once it has ended."""

    async def signal(self, container_id: str, number: int) -> None:
        """To all its processes; to none where it has ended."""

    async def stop(self, container_id: str, grace: float, number: int = 15) -> ContainerState:
        """Sends `number`, and after `grace` seconds kills what is left."""

    async def remove(self, container_id: str) -> None:
        """Forgets a container that has ended."""

    async def exec(
        self, container_id: str, command: Sequence[str], streams: Streams, *, tty: bool = False, stdin: bool = False
    ) -> int:
        """Runs a command in the container; its exit code. Raises StartError where it cannot be run."""

    async def attach(self, container_id: str, streams: Streams, *, stdin: bool = False) -> None:
        """What the container writes from now on, and its input, until either ends."""

    async def resize(self, container_id: str, limits: Limits) -> None:
        """Sets other limits for a container that runs; where the system refuses, the old ones stay."""

    async def usage(self, container_id: str) -> Usage | None: ...

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To a port that a container of the pod listens on."""
