"""Podman runtime: each container from its image, with namespaces, limits and devices of its own.

    <root>/pause/        the file system of the containers that hold the namespaces of pods
    <root>/bundles/      of a pod with hooks of claims for its network: what they are told
    <root>/containers/   a directory for each container: its environment and hooks while it starts, conmon's own then

Podman keeps the containers; they are found again by their labels. Each has a conmon, which outlives the agent, writes
the log and notes the end, so that looking after containers costs nothing until one of them ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Final

from dray.node import cdi
from dray.node.cgroups import Cgroups, cgroup_at, remove_below, removed
from dray.node.runtimes import log_rotation, pod_network, sandbox_hooks, stopping
from dray.node.runtimes.cancelling import finished
from dray.node.runtimes.cdi_edits import edits_of
from dray.node.runtimes.configs import ContainerConfig, Limits, SandboxConfig
from dray.node.runtimes.executions import Executions
from dray.node.runtimes.interface import ContainerState, Image, Sandbox, StartError, Streams, Usage
from dray.node.runtimes.podman import conmon
from dray.node.runtimes.podman.arguments import run_arguments
from dray.node.runtimes.podman.command import Podman, PodmanError
from dray.node.runtimes.podman.exec import execute
from dray.node.runtimes.podman.found import SCHEME, FoundContainer, found_container
from dray.node.runtimes.podman.hooks import write_hooks
from dray.node.runtimes.podman.images import Images, LocalImage
from dray.node.runtimes.podman.registry import Registry
from dray.node.runtimes.podman.sandboxes import Sandboxes
from dray.node.runtimes.process_end import ended
from dray.node.runtimes.shared_cpus import SharedCpus
from dray.process import beneath
from dray.process.ending import end_all
from dray.process.identity import is_exiting
from dray.process.tasks import end_tasks

_logger = logging.getLogger(__name__)
_ROTATE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 2.0
# Exit codes of podman if the OCI runtime could not run the command, such as a command that is not in the image.
_NOT_RUN: Final = (126, 127)


class PodmanRuntime:
    name = "podman"

    def __init__(
        self,
        root: Path,
        *,
        address: str = "127.0.0.1",
        cdi_directories: Sequence[Path] = cdi.DIRECTORIES,
        ends_with: int = 0,
    ) -> None:
        """With `ends_with`, a process id, all containers end when that process does, however it ends."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root.resolve()
        self._containers = self._root / "containers"
        self._containers.mkdir(mode=0o700, exist_ok=True)
        self._address = address
        self._cdi_directories = tuple(cdi_directories)
        self._cgroups = Cgroups()
        self._shared = SharedCpus(cdi_directories)
        self._podman = Podman()
        self._images = Images(self._podman)
        self._sandboxes = Sandboxes(self._podman, self._root)
        self._registry = Registry(self._podman, self._root, self._sandboxes, ends_with)
        self._executions = Executions()
        self._draining: set[asyncio.Task[None]] = set()

    async def version(self) -> str:
        return SCHEME + await self._podman.version()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_ROTATE_SECONDS)
            self.rotate_logs()

    def rotate_logs(self) -> None:
        """Rotates the logs that are larger than the limit."""
        for container in [running for running in self._registry.all() if running.state.running]:
            with contextlib.suppress(OSError):
                if container.log_path.stat().st_size > log_rotation.SIZE:
                    log_rotation.rotate(str(container.log_path), log_rotation.FILES)
                    conmon.open_log_again(container.sockets)

    async def images(self) -> list[Image]:
        try:
            return await self._images.all()
        except (PodmanError, ValueError) as error:
            _logger.warning("images are not listed: %s", error)
            return []

    # Pods

    async def create_sandbox(self, config: SandboxConfig) -> Sandbox:
        await self._registry.load()
        found = self._sandboxes.get(config.pod_uid)
        bundle = self._root / "bundles" / config.pod_uid
        if found is None or not found.running:
            sandbox_hooks.forget(bundle)
            found = await finished(self._sandboxes.make(config))
        if config.cdi_devices and not sandbox_hooks.are_done(bundle, found.network):
            hooks = edits_of(config, self._cdi_directories).sandbox_hooks
            sandbox_hooks.check_network(config, hooks)
            await sandbox_hooks.run_sandbox_hooks(hooks, config.pod_uid, found.network, bundle)
        return Sandbox(found.id, found.address or self._address, found.network)

    async def pods(self) -> set[str]:
        await self._registry.load()
        return self._sandboxes.uids() | {container.state.pod_uid for container in self._registry.all()}

    async def stop_sandbox(self, pod_uid: str) -> None:
        await self._registry.load()
        await self._sandboxes.stop(pod_uid)

    async def end_pod(self, pod_uid: str) -> bool:
        await self._registry.load()
        pod = [container.state.id for container in self._registry.all() if container.state.pod_uid == pod_uid]
        running = [container for container in pod if self._registry.running(container) is not None]
        await asyncio.gather(*(self.stop(container, 0) for container in running))
        await self._sandboxes.stop(pod_uid)
        return bool(running)

    async def remove_sandbox(self, pod_uid: str) -> None:
        await self._registry.delete_pod(pod_uid)
        for directory in self._containers.glob(f"{pod_uid}.*"):
            beneath.remove_tree(directory)
        beneath.remove_tree(self._root / "bundles" / pod_uid)
        self._sandboxes.forget(pod_uid)
        # Podman leaves the groups above its own, and each conmon ends shortly after its container.
        await removed(lambda: remove_below(f"dray/{pod_uid}"))

    # Containers

    async def follow_claims(self, cdi_ids: Iterable[str]) -> None:
        await self._registry.load()
        if self._shared.follow(cdi_ids):
            for found in self._registry.all():
                if found.shares_cpus and found.state.running:
                    self._share_cpus(found)

    def _share_cpus(self, found: FoundContainer) -> None:
        path = found.cgroup if found.id in found.cgroup else ""
        self._shared.hold(path, self._shared.cpus, found.processes)

    async def start(self, config: ContainerConfig) -> ContainerState:
        await self._registry.load()
        sandbox = self._sandboxes.get(config.pod_uid)
        if sandbox is None:
            raise StartError("CreateContainerError", f"pod {config.namespace}/{config.pod_name} has no sandbox")
        edits = edits_of(config, self._cdi_directories)
        image = await self._images.ready(config.image, config.pull_policy)
        directory = self._containers / f"{config.pod_uid}.{config.name}.{config.attempt}"
        beneath.remove_tree(directory)
        directory.mkdir(mode=0o700)
        try:
            sharing = sandbox.sharing_arguments(self._target(config))
            shared = self._shared.cpus if self._shared.are_limited else frozenset()
            arguments = run_arguments(
                config, sharing, edits, image.user, root=self._root, directory=directory, shared_cpus=shared
            )
            options = write_hooks(edits.hooks, directory / "hooks")
            return await finished(self._run(arguments, options, image, directory))
        except StartError:
            beneath.remove_tree(directory)
            raise

    def _target(self, config: ContainerConfig) -> str:
        """Returns podman's id of the running container that the pod names as target; empty if there is none."""
        pod = [
            container
            for container in self._registry.all()
            if container.state.pod_uid == config.pod_uid and container.state.running
        ]
        return next((container.id for container in pod if config.target and container.state.name == config.target), "")

    async def _run(
        self, arguments: list[str], options: list[str], image: LocalImage, directory: Path
    ) -> ContainerState:
        name = arguments[arguments.index("--name") + 1]
        try:
            made = (await self._podman.run(*arguments, options=options, directory=directory)).strip()
            found = found_container((await self._podman.inspect(made))[0], image.id)
        except PodmanError as error:
            with contextlib.suppress(PodmanError):
                await self._registry.delete([name])
            reason = "RunContainerError" if error.code in _NOT_RUN else "CreateContainerError"
            raise StartError(reason, str(error)) from None
        (directory / "environment").unlink()
        assert found is not None
        self._registry.add(found)
        if found.shares_cpus:
            # Claims may have been prepared or unprepared since podman was called.
            self._share_cpus(found)
        return found.state

    async def containers(self) -> list[ContainerState]:
        await self._registry.load()
        return [(await self._registry.renewed(container)).state for container in self._registry.all()]

    async def wait(self, container_id: str) -> ContainerState:
        await self._registry.load()
        found = self._registry.get(container_id)
        if found is None:
            return ContainerState(container_id, "", "", 0, 0.0, time.time(), 128 + SIGKILL)
        if self._registry.running(container_id):
            await ended(found.monitor)
        state = (await self._registry.renewed(found)).state
        await self._executions.end(container_id)
        return state

    async def signal(self, container_id: str, number: int) -> None:
        await self._registry.load()
        found = self._registry.running(container_id)
        if found is None:
            return
        if number == SIGKILL:
            await self._executions.end(container_id)
        try:
            await self._podman.run("kill", "--signal", str(number), found.id)
        except PodmanError as error:
            if number == SIGKILL and self._registry.running(container_id):
                _logger.warning("container %s is killed without podman: %s", found.id, error)
                await end_all(found.processes, called=container_id)

    async def stop(self, container_id: str, grace: float, number: int = SIGTERM) -> ContainerState:
        await self._registry.load()
        found = self._registry.get(container_id)
        if found is not None and number == SIGTERM:
            # The image may set another stop signal.
            number = found.stop_signal
        return await stopping.stop(self, container_id, grace if found is not None else 0, number)

    async def kill(self, container_id: str) -> None:
        """Kills all processes of the container and its conmon, without the help of podman."""
        if (found := self._registry.running(container_id)) is not None:
            await self._executions.end(container_id)
            await end_all(found.processes, called=container_id)
            conmon.kill(found.monitor, found.id)

    async def remove(self, container_id: str) -> None:
        if (found := self._registry.get(container_id)) is not None:
            self._registry.forget(container_id)
            # A container that cannot be removed now is removed with its pod.
            with contextlib.suppress(PodmanError):
                await self._registry.delete([found.id])
            beneath.remove_tree(found.directory)

    # Looking in

    async def exec(
        self, container_id: str, command: Sequence[str], streams: Streams, *, tty: bool = False, stdin: bool = False
    ) -> int:
        found = await self._running(container_id)
        work = execute(self._podman, found, command, streams, tty=tty, stdin=stdin)
        watching = asyncio.create_task(self._end_commands_with(found))
        try:
            return await self._executions.run(container_id, work)
        finally:
            await end_tasks((watching,))

    async def _end_commands_with(self, found: FoundContainer) -> None:
        """Ends commands in a container whose first process ends.

        The kernel lets the first process of a PID namespace end after all others were waited for. The conmon of a
        command does not wait for it while the client of the command does not read its output.
        """
        while not is_exiting(found.pid):
            await asyncio.sleep(_LOOK_SECONDS)
        await self._executions.end(found.state.id)

    async def attach(self, container_id: str, streams: Streams, *, stdin: bool = False) -> None:
        found = await self._running(container_id)
        try:
            attachment = conmon.Attachment(found.sockets)
        except OSError:
            raise StartError("ContainerNotRunning", "the container is not running") from None
        try:
            await attachment.copy(streams, stdin=stdin)
        finally:
            if found.tty or found.stdin_once or self._registry.running(container_id) is None:
                attachment.close()
            else:
                self._keep_open(attachment)

    def _keep_open(self, attachment: conmon.Attachment) -> None:
        async def drain() -> None:
            try:
                await attachment.drain()
            finally:
                attachment.close()

        task = asyncio.create_task(drain())
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _running(self, container_id: str) -> FoundContainer:
        await self._registry.load()
        found = self._registry.running(container_id)
        if found is None:
            raise StartError("ContainerNotRunning", "the container is not running")
        return found

    async def resize(self, container_id: str, limits: Limits) -> None:
        if (found := self._registry.running(container_id)) is not None:
            with contextlib.suppress(OSError):
                cgroup_at(found.cgroup).limit(limits)

    async def usage(self, container_id: str) -> Usage | None:
        found = self._registry.running(container_id)
        return cgroup_at(found.cgroup).usage() if found is not None else None

    async def connect(self, pod_uid: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await self._registry.load()
        sandbox = self._sandboxes.get(pod_uid)
        if sandbox is not None and sandbox.network:
            return await pod_network.connect(sandbox.network, port)
        return await asyncio.open_connection("127.0.0.1", port)
