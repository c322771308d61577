"""Process runtime: containers as processes of this machine, with their own environment, mounts, limits and log.

    <root>/pods/<pod uid>/...                     what the containers of a pod share
    <root>/containers/<pod uid>.<name>.<attempt>  of one container: spec.json, state.json, exit.json, control.sock

A container is a shim and its child in a session of their own (shim package). The shim goes on when the agent ends; the
next agent finds it by the directory. Processes see the files of the host, and its network unless a claim of the pod
needs another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Final

from dray.driver.cdi.edits import Hook
from dray.node import cdi
from dray.node.cgroups import Cgroup, Cgroups, removed
from dray.node.cpusets.lists import Cpuset
from dray.node.cpusets.pinning import PARENT
from dray.node.runtimes import (
    pod_network,
    process_images,
    process_kill,
    process_network,
    process_usage,
    shim_client,
    shim_lock,
    stopping,
)
from dray.node.runtimes.cancelling import finished
from dray.node.runtimes.cdi_edits import edits_of
from dray.node.runtimes.cdi_hooks import run_hooks
from dray.node.runtimes.configs import ContainerConfig, Limits, SandboxConfig
from dray.node.runtimes.device_files import can_hide, hidden_files
from dray.node.runtimes.executions import Executions
from dray.node.runtimes.interface import ContainerState, Image, Sandbox, StartError, Streams, Usage
from dray.node.runtimes.process_exec import ExecProcess
from dray.node.runtimes.process_spec import container_spec
from dray.node.runtimes.shared_cpus import SharedCpus
from dray.node.runtimes.shim.processes import descendants
from dray.node.runtimes.shim_server import ShimServer
from dray.process import beneath
from dray.process.ending import end_all

_logger = logging.getLogger(__name__)
_START_SECONDS: Final = 60.0
_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.5


class ProcessRuntime:
    name = "process"

    def __init__(
        self,
        root: Path,
        *,
        address: str = "127.0.0.1",
        cdi_directories: Sequence[Path] = cdi.DIRECTORIES,
        cgroups: Cgroups | None = None,
        plugins: Path | None = None,
        unknown_images_wait: bool = False,
        ends_with: int = 0,
    ) -> None:
        """Prepares the directories of the runtime.

        `plugins` is the directory of the node's drivers, whose device files are hidden from containers without a claim.
        With `unknown_images_wait` a container without a command waits, whatever its image would have run. With
        `ends_with`, a process id, all containers end when that process does, however it ends.
        """
        self._pods = root / "pods"
        self._containers = root / "containers"
        self._address = address
        self._ends_with = ends_with
        self._cdi_directories = tuple(cdi_directories)
        self._cgroups = cgroups or Cgroups()
        self._shared = SharedCpus(cdi_directories)
        self._plugins = plugins
        self._unknown_images_wait = unknown_images_wait
        self._starting: set[str] = set()
        self._shims = ShimServer()
        self._executions = Executions()
        for directory in (root, self._pods, self._containers):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def version(self) -> str:
        if not self._cgroups.usable:
            _logger.warning(
                "no control groups that this user may write: limits of cpu and memory are not enforced on this node"
            )
        if self._plugins is not None and not await asyncio.to_thread(can_hide):
            _logger.warning(
                "no mount namespaces for this user: pods see the device files of all GPUs; run the node as root, allow "
                "user namespaces, or use --runtime podman"
            )
        if self._plugins is not None and os.geteuid() == 0 and (why := self._cgroups.why_no_device_rules()):
            _logger.warning(
                "no device rules in control groups (%s): a pod that runs as root can make hidden device files again; "
                "set runAsUser, or use --runtime podman",
                why,
            )
        return f"process://{sys.version_info.major}.{sys.version_info.minor}"

    async def run(self) -> None:
        """Waits until it is cancelled: shims need no background work of the agent."""
        await asyncio.Event().wait()

    async def images(self) -> list[Image]:
        return []

    # Pods

    async def pods(self) -> set[str]:
        containers = {directory.name.rsplit(".", 2)[0] for directory in self._containers.iterdir()}
        return containers | {directory.name for directory in self._pods.iterdir()}

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        directory = self._pods / config.pod_uid
        directory.mkdir(mode=0o755, exist_ok=True)
        if not process_network.is_ready(directory, config):
            await process_network.set_up(directory, config, edits_of(config, self._cdi_directories))
        address = await process_network.address(directory, self._address)
        return Sandbox(config.pod_uid, address, process_network.of_pod(directory))

    async def stop_sandbox(self, pod_uid: str) -> None:
        process_network.remove(self._pods / pod_uid)

    async def end_pod(self, pod_uid: str) -> bool:
        directories = list(self._containers.glob(f"{pod_uid}.*"))
        running = [
            directory
            for directory in directories
            if not (directory / "exit.json").exists() and shim_lock.is_held(directory)
        ]
        await asyncio.gather(*(self._stop_started(directory) for directory in directories))
        await end_all(self._cgroups.find(pod_uid).members, called=f"pod {pod_uid}")
        process_network.remove(self._pods / pod_uid)
        return bool(running)

    async def remove_sandbox(self, pod_uid: str) -> None:
        await self.end_pod(pod_uid)
        directories = list(self._containers.glob(f"{pod_uid}.*"))
        await asyncio.gather(*(self.remove(directory.name) for directory in directories))
        await removed(self._cgroups.find(pod_uid).remove)
        beneath.remove_tree(self._pods / pod_uid)

    async def _stop_started(self, directory: Path) -> None:
        """Kills a container. Forgets one that was never started."""
        try:
            async with asyncio.timeout(stopping.OBEY_SECONDS):
                while directory.name in self._starting:
                    await asyncio.sleep(_PAUSE)
                started = await self._started(directory)
        except TimeoutError:
            # The start of the container hangs.
            await self.kill(directory.name)
            started = await self._started(directory)
        if started is not None:
            await self.stop(directory.name, 0)

    # Containers

    async def follow_claims(self, cdi_ids: Iterable[str]) -> None:
        if not self._shared.follow(cdi_ids):
            return
        for directory in list(self._containers.iterdir()):
            spec = shim_client.read_json(directory / "spec.json") or {}
            if spec and not spec.get("cpus") and shim_lock.is_held(directory):
                self._hold(directory, self._shared.cpus)

    def _hold(self, directory: Path, cpus: Cpuset) -> bool:
        """Restricts a container to CPUs. Returns True if its control group enforces it."""
        pod_uid, name, attempt = directory.name.rsplit(".", 2)

        def processes() -> set[int]:
            started = shim_client.read_json(directory / "state.json") or {}
            shim = int(started.get("shim", 0))
            return {*self._cgroup(directory).members(), *(descendants(shim) if shim else ())}

        path = f"{PARENT}/{pod_uid}/{name}-{attempt}" if self._cgroups.usable else ""
        return self._shared.hold(path, cpus, processes)

    async def start(self, config: ContainerConfig) -> ContainerState:
        argv = process_images.argv(config.image, config.command, config.args, unknown_wait=self._unknown_images_wait)
        edits = edits_of(config, self._cdi_directories)
        container_id = f"{config.pod_uid}.{config.name}.{config.attempt}"
        directory = self._containers / container_id
        beneath.remove_tree(directory)
        (directory / "stage").mkdir(mode=0o700, parents=True)
        self._starting.add(container_id)
        try:
            with shim_lock.held(directory) as lock:
                started = await self._start(config, argv, edits, directory, lock)
                return replace(started, warning=process_images.warning(config.image, config.command))
        finally:
            self._starting.discard(container_id)

    async def _start(
        self, config: ContainerConfig, argv: list[str], edits: cdi.Edits, directory: Path, lock: int
    ) -> ContainerState:
        container_id = directory.name
        cgroup = self._cgroups.make(config.pod_uid, f"{config.name}-{config.attempt}")
        cgroup.limit(config.limits)
        hidden = self._hidden(config, edits)
        cgroup.deny(hidden, _device_files(edits))
        spec = container_spec(config, argv, edits, directory, cgroup, hidden)
        spec |= {"ends_with": self._ends_with, "network": process_network.of_pod(self._pods / config.pod_uid)}
        own, shared = frozenset(spec["cpus"]), self._shared.cpus
        if (own or self._shared.are_limited) and not self._hold(directory, own or shared) and not own:
            spec["shared_cpus"] = sorted(shared)
        _write_private(directory / "spec.json", spec)
        try:
            await run_hooks(edits.hooks, ("prestart", "createRuntime"), container_id, directory)
        except BaseException:
            await self._forget(directory)
            raise
        try:
            started = await finished(self._launch(directory, lock))
        except StartError:
            await self._forget(directory)
            raise
        if not own and shared != self._shared.cpus:
            # Claims may have been prepared or unprepared meanwhile.
            self._hold(directory, self._shared.cpus)
        await run_hooks(edits.hooks, ("poststart",), container_id, directory)
        return await self._state(directory, started)

    def _hidden(self, config: ContainerConfig, edits: cdi.Edits) -> list[str]:
        if self._plugins is None or config.security.privileged:
            return []
        return hidden_files(self._plugins, _device_files(edits))

    async def _forget(self, directory: Path) -> None:
        """Removes everything of a container that could not be started."""
        await removed(self._cgroup(directory).remove)
        # A container may have made many files in its working directory.
        await asyncio.to_thread(beneath.remove_tree, directory)

    async def _launch(self, directory: Path, lock: int) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_START_SECONDS):
                # The shim holds the lock of the directory from its start to its end.
                told = json.loads(await self._shims.start(directory, lock) or b"{}")
        except TimeoutError:
            await self.kill(directory.name)
            raise StartError("CreateContainerError", f"not started within {_START_SECONDS:g} s") from None
        except OSError as error:
            raise StartError("CreateContainerError", f"no shim can be started: {error}") from None
        if problem := told.get("problem", "" if "pid" in told else "CreateContainerError: the shim ended"):
            reason, _, message = str(problem).partition(": ")
            raise StartError(reason, message)
        return dict(told)

    async def containers(self) -> list[ContainerState]:
        found = []
        for directory in sorted(self._containers.iterdir()):
            started = await self._started(directory)
            if started is not None:
                found.append(await self._state(directory, started))
        return found

    async def _started(self, directory: Path) -> dict[str, Any] | None:
        """Returns how a container was started, after waiting for a killed agent's start; None if it never started."""
        end = time.monotonic() + _START_SECONDS
        while (started := shim_client.read_json(directory / "state.json")) is None:
            if directory.name in self._starting:
                return None
            if not shim_lock.is_held(directory):
                # The shim may have written the file just before it ended.
                if (started := shim_client.read_json(directory / "state.json")) is None:
                    await self._forget(directory)
                return started
            if time.monotonic() > end:
                await self.kill(directory.name)
            await asyncio.sleep(_PAUSE)
        return started

    async def wait(self, container_id: str) -> ContainerState:
        """Returns the state when the container and all commands that were executed in it have ended."""
        directory, pause = self._containers / container_id, _PAUSE
        while True:
            await shim_client.ended(directory)
            if (directory / "exit.json").exists() or not shim_lock.is_held(directory):
                break
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        started = shim_client.read_json(directory / "state.json") or {}
        state = await self._state(directory, started, ended=True)
        await end_all(self._cgroup(directory).members, called=container_id)
        await self._executions.end(container_id)
        return state

    async def signal(self, container_id: str, number: int) -> None:
        await shim_client.send_signal(self._containers / container_id, number)

    async def stop(self, container_id: str, grace: float, number: int = SIGTERM) -> ContainerState:
        return await stopping.stop(self, container_id, grace, number)

    async def kill(self, container_id: str) -> None:
        """Kills all processes of the container and its shim, without the shim's help."""
        directory = self._containers / container_id
        await process_kill.kill(directory, self._cgroup(directory))

    async def remove(self, container_id: str) -> None:
        directory = self._containers / container_id
        spec = shim_client.read_json(directory / "spec.json") or {}
        hooks = [Hook(**hook) for hook in spec.get("poststop", ())]
        await run_hooks(hooks, ("poststop",), container_id, directory)
        await end_all(self._cgroup(directory).members, called=container_id)
        await self._forget(directory)

    # Looking in

    async def exec(
        self, container_id: str, command: Sequence[str], streams: Streams, *, tty: bool = False, stdin: bool = False
    ) -> int:
        directory = self._containers / container_id
        spec = shim_client.read_json(directory / "spec.json")
        started = shim_client.read_json(directory / "state.json")
        if spec is None or started is None or (directory / "exit.json").exists():
            raise StartError("ContainerNotRunning", "the container is not running")
        if "shared_cpus" in spec:
            spec["shared_cpus"] = sorted(self._shared.cpus)
        execution = ExecProcess(directory, spec, started["pid"])
        return await self._executions.run(container_id, execution.run(command, streams, tty=tty, stdin=stdin))

    async def attach(self, container_id: str, streams: Streams, *, stdin: bool = False) -> None:
        try:
            await shim_client.attach(self._containers / container_id, streams, stdin=stdin)
        except OSError:
            raise StartError("ContainerNotRunning", "the container is not running") from None

    async def resize(self, container_id: str, limits: Limits) -> None:
        with contextlib.suppress(OSError):
            self._cgroup(self._containers / container_id).limit(limits)

    async def usage(self, container_id: str) -> Usage | None:
        directory = self._containers / container_id
        counted = self._cgroup(directory).usage()
        if counted is not None:
            return counted
        started = shim_client.read_json(directory / "state.json") or {}
        return process_usage.usage(int(started.get("shim", 0)))

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if namespace := process_network.of_pod(self._pods / pod_uid):
            return await pod_network.connect(namespace, port)
        return await asyncio.open_connection("127.0.0.1", port)

    def _cgroup(self, directory: Path) -> Cgroup:
        pod_uid, name, attempt = directory.name.rsplit(".", 2)
        return self._cgroups.find(pod_uid, f"{name}-{attempt}")

    async def _state(self, directory: Path, started: dict[str, Any], *, ended: bool = False) -> ContainerState:
        spec = shim_client.read_json(directory / "spec.json") or {}
        pod_uid, name, attempt = directory.name.rsplit(".", 2)
        end = shim_client.read_json(directory / "exit.json")
        if end is None and (ended or not shim_lock.is_held(directory)):
            # The shim may have written the end and exited since the first read.
            end = shim_client.read_json(directory / "exit.json") or await self._killed(directory)
        state = ContainerState(
            directory.name, pod_uid, name, int(attempt), started.get("started_at", 0.0), image=spec.get("image", "")
        )
        if end is None:
            return state
        code = int(end["code"])
        return ContainerState(
            state.id,
            pod_uid,
            name,
            state.attempt,
            state.started_at,
            float(end["finished_at"]),
            code if code >= 0 else 128 - code,
            -code if code < 0 else 0,
            code == -SIGKILL and self._cgroup(directory).oom_killed(),
            state.image,
        )

    async def _killed(self, directory: Path) -> dict[str, Any]:
        """Kills what is left of a container whose shim was killed, and returns its final state."""
        await process_kill.end_left(directory, self._cgroup(directory))
        end = {"code": -SIGKILL, "finished_at": time.time()}
        # The container may have been removed meanwhile.
        with contextlib.suppress(FileNotFoundError):
            _write_private(directory / "exit.json", end)
        return end


def _write_private(path: Path, content: dict[str, Any]) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump(content, file)


def _device_files(edits: cdi.Edits) -> list[str]:
    """Returns the paths on the machine of the device files that claims give a container."""
    return [node.host_path or node.path for node in edits.device_nodes]
