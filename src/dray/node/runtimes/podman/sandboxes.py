"""Sandbox of a pod: a container that only waits, and holds the namespaces that the containers of the pod share.

It runs catatonit, which podman uses for the same purpose, out of a directory, so that no image is needed. It has the
pod's network, host name and shared memory, and with `shareProcessNamespace` its processes.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dray.node.runtimes.configs import HostPort, SandboxConfig
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman import labels
from dray.node.runtimes.podman.command import Podman, PodmanError, catatonit, limit_arguments, why_not


@dataclass(frozen=True, slots=True)
class PodSandbox:
    """The sandbox of a pod; `address` and `network` (a namespace path) are empty for a pod in the host network."""

    id: str
    pod_uid: str
    running: bool
    address: str
    network: str
    processes: str

    def sharing_arguments(self, target: str) -> list[str]:
        """Returns podman's arguments for a container that joins; it also sees the processes of container `target`."""
        network = f"container:{self.id}" if self.network else "host"
        made = ["--network", network, "--ipc", f"container:{self.id}", "--uts", f"container:{self.id}"]
        processes = {"host": "host", "pod": f"container:{self.id}"}.get(self.processes)
        if processes is None and target:
            processes = f"container:{target}"
        return made if processes is None else [*made, "--pid", processes]


class Sandboxes:
    def __init__(self, podman: Podman, root: Path) -> None:
        self._podman = podman
        self._root = root
        self._pause = root / "pause"
        self._known: dict[str, PodSandbox] = {}

    def add(self, inspected: dict[str, Any]) -> None:
        """Adds a sandbox that an earlier agent made."""
        found = sandbox_of(inspected)
        before = self._known.get(found.pod_uid)
        if found.running or before is None or not before.running:
            self._known[found.pod_uid] = found

    def get(self, pod_uid: str) -> PodSandbox | None:
        return self._known.get(pod_uid)

    def uids(self) -> set[str]:
        return set(self._known)

    def forget(self, pod_uid: str) -> None:
        self._known.pop(pod_uid, None)

    async def stop(self, pod_uid: str) -> None:
        found = self._known.get(pod_uid)
        if found is not None and found.running:
            self._known[pod_uid] = replace(found, running=False)
            # A sandbox that cannot be removed now is removed with the pod.
            with contextlib.suppress(PodmanError):
                await self._podman.run("stop", "--time", "0", found.id)

    async def make(self, config: SandboxConfig) -> PodSandbox:
        self._place_pause()
        shared = "host" if config.host_pid else "pod" if config.share_processes else "container"
        described = {
            labels.ROOT: str(self._root),
            labels.POD_UID: config.pod_uid,
            labels.POD_NAMESPACE: config.namespace,
            labels.POD_NAME: config.name,
            labels.CONTAINER: labels.SANDBOX,
            labels.PROCESSES: shared,
        }
        # A new name each time: a sandbox that ended with the machine is kept while containers refer to it.
        name = f"k8s_{labels.SANDBOX}_{config.name}_{config.namespace}_{config.pod_uid}_{secrets.token_hex(3)}"
        network = ["--network", "host"] if config.host_network else ["--hostname", config.hostname or config.name]
        network += [part for each in config.ports for part in ("--publish", _published(each))]
        arguments = [
            *("run", "--detach", "--name", name, *labels.arguments(described), *limit_arguments()),
            *("--cgroup-parent", f"/dray/{config.pod_uid}", "--security-opt", "label=disable", "--http-proxy=false"),
            *("--no-hosts", "--read-only", "--cap-drop", "all", "--log-driver", "none", "--systemd=false", *network),
            *("--ipc", "host" if config.host_ipc else "shareable", *(("--pid", "host") if config.host_pid else ())),
            *("--rootfs", str(self._pause), "/pause", "-P"),
        ]
        try:
            made = await self._podman.run(*arguments)
            self.add((await self._podman.inspect(made.strip()))[0])
        except PodmanError as error:
            raise StartError("FailedCreatePodSandBox", f"sandbox of the pod: {error}") from None
        return self._known[config.pod_uid]

    def _place_pause(self) -> None:
        program = self._pause / "pause"
        if program.exists():
            return
        found = catatonit()
        if found is None:
            raise StartError("FailedCreatePodSandBox", why_not())
        self._pause.mkdir(mode=0o755, exist_ok=True)
        shutil.copyfile(found, self._pause / "new")
        (self._pause / "new").chmod(0o755)
        (self._pause / "new").rename(program)


def _published(port: HostPort) -> str:
    address = f"[{port.host_ip}]" if ":" in port.host_ip else port.host_ip
    ports = f"{port.host_port}:{port.container_port}/{port.protocol.lower()}"
    return f"{address}:{ports}" if address else ports


def sandbox_of(inspected: dict[str, Any]) -> PodSandbox:
    network = inspected["NetworkSettings"]
    given = inspected["Config"]["Labels"]
    networks = [joined for joined in (network.get("Networks") or {}).values() if joined.get("IPAddress")]
    address = str(network.get("IPAddress") or (networks[0]["IPAddress"] if networks else ""))
    return PodSandbox(
        str(inspected["Id"]),
        str(given[labels.POD_UID]),
        bool(inspected["State"]["Running"]),
        address,
        str(network.get("SandboxKey") or "") if address else "",
        str(given.get(labels.PROCESSES) or "container"),
    )
