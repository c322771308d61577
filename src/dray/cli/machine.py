"""This machine as a node: the node agent, and drivers for the devices of the machine, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dray.api.names import SUBDOMAIN_DETAIL, is_subdomain
from dray.cli.node_driver import NodeDriver
from dray.cli.node_drivers import ChosenDriver
from dray.node.errors import NodeError, described
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.client.api import ApiClient
    from dray.driver import Driver
    from dray.fleet.machine import Machine as FleetMachine
    from dray.node.eviction.pressure import EvictionOptions
    from dray.node.host_parts import HostPart
    from dray.node.runtimes.interface import Runtime
    from dray.node.server.trust import NodeTrust
    from dray.server.security.certificates import Credential

RUNTIMES: Final = ("process", "podman")
# The runtimes keep containers without a claim off claimed CPUs, and claims may have all CPUs of the machine.
_SETTINGS: Final = {"cpu": {"sharedPool": "off"}}
_LONGEST_ROOT: Final = 60
_END_SECONDS: Final = 120.0
_logger = logging.getLogger("dray.node")


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """`root` holds everything that the node keeps; drivers of others find the kubelet's directories in it."""

    node: str
    root: Path
    runtime: str = "process"
    address: str = "127.0.0.1"
    drivers: tuple[ChosenDriver, ...] = (ChosenDriver("cpu"),)
    labels: Mapping[str, str] = field(default_factory=dict)
    keep_pods: bool = True
    """Whether the pods go on running when the machine stops."""
    trust: NodeTrust | None = None
    """Certificates of the node's own server for logs, commands, ports and usage of pods; None: no such server."""
    port: int = 0
    """Port of that server; 0 for any free one."""

    api_server: str = ""
    """The URL at which pods reach the API server."""
    manifests: Path | None = None
    """A directory with static pods."""
    eviction: EvictionOptions | None = None
    """Eviction thresholds; None for those of a kubelet."""
    host_parts: tuple[HostPart, ...] = ()
    """Processes beside the agent that are shown as pods of the node."""
    simulated: FleetMachine | None = None
    """Machine of a fleet to simulate: its devices, labels and capacity; pods run here as processes."""

    @property
    def cdi_directory(self) -> Path:
        return self.root / "cdi"


class Machine:
    def __init__(self, client: ApiClient, options: MachineOptions) -> None:
        from dray.driver import RunnerOptions
        from dray.node.agent import NodeAgent
        from dray.node.agent_options import AgentOptions
        from dray.server.listening import listen

        options.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Containers, drivers and daemons that get paths below it have other working directories.
        options = self.options = replace(options, root=short_root(options.root.absolute()))
        self._runtime = _runtime(options)
        self._socket = listen(options.address, options.port) if options.trust is not None else None
        self._tls = options.trust.context() if options.trust is not None else None
        # A node without an API says so with port 0.
        port = self._socket.getsockname()[1] if self._socket is not None else 0
        self.agent = NodeAgent(
            client,
            AgentOptions(
                node=options.node,
                root=options.root,
                runtime=self._runtime,
                address=options.address,
                labels=options.labels,
                port=port,
                api_server=options.api_server,
                host_parts=options.host_parts,
                resources=options.simulated.resources() if options.simulated is not None else {},
                manifests=options.manifests,
                eviction=_eviction(options),
            ),
        )
        places = RunnerOptions(node_name=options.node, kubelet_root=options.root, cdi_directory=options.cdi_directory)
        self._drivers = [NodeDriver(name, make, client, places) for name, make in makers_of(options).items()]
        self.ready = asyncio.Event()
        """Set once the node is registered, its drivers are, and their slices are stored; or a driver has failed."""

    async def run(self) -> None:
        """Runs the node until it is cancelled."""
        async with self._served():
            await self._run()

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        from dray.node.server.serving import serving

        if self._tls is None or self._socket is None:
            yield
        else:
            async with serving(self.agent, self._socket, self._tls):
                yield

    async def show(self, credential: Credential) -> None:
        """Answers the server with another certificate from now on."""
        from dray.server.security.certificates import load_credential

        if self._tls is not None:
            load_credential(self._tls, credential)

    async def _run(self) -> None:
        agent = asyncio.create_task(self.agent.run())
        drivers = [asyncio.create_task(self._drive(driver)) for driver in self._drivers]
        readiness = asyncio.create_task(self._readiness())
        try:
            await agent
        finally:
            await end_tasks((agent, *drivers, readiness))
            if not self.options.keep_pods:
                for failure in (await _ended(await self._runtime.pods(), self._runtime.remove_sandbox)).failures:
                    _logger.error("%s", failure)

    async def _drive(self, driver: NodeDriver) -> None:
        await self.agent.ready.wait()
        await driver.run(self.agent.dra.registry.look)

    async def _readiness(self) -> None:
        await self.agent.ready.wait()
        for driver in self._drivers:
            await driver.tried.wait()
        self.ready.set()


class Machines:
    """Several nodes on this machine, each with an agent, drivers and directory of its own."""

    def __init__(self, client: ApiClient, options: Sequence[MachineOptions]) -> None:
        from dray.cli.node_transports import AsNode
        from dray.client.api import ApiClient

        self._machines = [Machine(ApiClient(AsNode(client.transport, option.node)), option) for option in options]
        self.ready = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for machine in self._machines:
                group.create_task(machine.run())
            for machine in self._machines:
                await machine.ready.wait()
            self.ready.set()


def simulated(machine: FleetMachine, like: MachineOptions) -> MachineOptions:
    """A machine of a fleet whose pods run here; its directory is beside that of this machine."""
    root = like.root.parent / "simulated" / machine.name
    # Its pods may name images of other machines, which processes can do without.
    like = replace(like, node=machine.name, root=root, runtime="process", drivers=())
    return replace(like, labels=machine.traits(), simulated=machine)


def driver_names(options: MachineOptions) -> list[str]:
    """Returns the names of the node's drivers as slices have them; a driver that cannot be loaded has none."""
    from dray.driver import DriverError
    from dray.drivers.devices.names import OF_DRAY

    found = []
    for name, make in makers_of(options).items():
        with contextlib.suppress(DriverError):
            found.append(OF_DRAY[name] if options.simulated is None and name in OF_DRAY else make().name)
    return found


def makers_of(options: MachineOptions) -> dict[str, Callable[[], Driver]]:
    """Returns what makes each driver of the node; making one raises DriverError if it cannot work here."""
    from dray.drivers.registry import load

    if options.simulated is not None:
        from dray.fleet import machine_drivers

        made = machine_drivers.drivers_of(options.simulated)
        return {driver.name: partial(_same, driver) for driver in made}
    return {
        chosen.name: partial(load, chosen.name, {**_SETTINGS.get(chosen.name, {}), **chosen.settings})
        for chosen in options.drivers
    }


def _same(driver: Driver) -> Driver:
    return driver


def short_root(root: Path) -> Path:
    """A path of the directory that leaves room for the names of sockets, whose paths have 107 bytes at most."""
    if len(os.fsencode(root)) <= _LONGEST_ROOT:
        return root
    link = Path(tempfile.gettempdir()) / f"dray-node-{sha256(os.fsencode(root)).hexdigest()[:12]}"
    try:
        link.symlink_to(root)
    except FileExistsError:
        if link.lstat().st_uid != os.geteuid() or not link.is_symlink() or link.readlink() != root:
            raise NodeError(f"{link} is not from dray; remove it, or use a shorter directory than {root}") from None
    return link


def _eviction(options: MachineOptions) -> EvictionOptions:
    from dray.node.eviction.pressure import EvictionOptions

    if options.simulated is not None:
        # What is left of this machine is not what is left of that one.
        return EvictionOptions(hard=())
    return options.eviction or EvictionOptions()


def load() -> None:
    """Imports what every node needs, before its options are known."""
    import dray.driver.runner
    import dray.drivers.registry
    import dray.node.agent
    import dray.node.runtimes.process
    import dray.node.server.serving  # noqa: F401


def quiet_grpc() -> None:
    """Before grpc is loaded: containers are started by exec, for which its handlers of forks have nothing to do."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def own_name(given: str = "") -> str:
    """The name of this machine as a node: the given one, or the host name. Raises UsageError."""
    name = given or socket.gethostname().lower()
    if not is_subdomain(name):
        advice = (
            "" if given else "; the host name of this machine is not: choose another name with dray node --node-name"
        )
        raise click.UsageError(f"the node name {name!r} must be {SUBDOMAIN_DETAIL}{advice}")
    return name


def check_runtime(name: str) -> None:
    """Ends the command where the runtime cannot work here."""
    if name == "podman":
        from dray.node.runtimes.podman.command import why_not

        if problem := why_not():
            click.echo(f"error: {problem}", err=True)
            sys.exit(2)


async def end_pods(options: MachineOptions) -> EndedPods:
    """Ends the pods of a node whose agent has ended. The next agent finds how they ended, and their logs."""
    runtime = _runtime(replace(options, root=short_root(options.root)))
    return await _ended(await runtime.pods(), runtime.end_pod)


@dataclass(frozen=True, slots=True)
class EndedPods:
    """`count` is the number of pods that were running and are ended."""

    count: int
    failures: tuple[str, ...] = ()
    """Why other pods did not end."""


async def _ended(uids: Iterable[str], end: Callable[[str], Awaitable[object]]) -> EndedPods:
    """Ends all pods at the same time, so that a pod that does not end delays no other. `end` returns whether the pod
    was running."""
    found = await asyncio.gather(*(_end_pod(uid, end) for uid in sorted(uids)))
    failures = tuple(outcome for outcome in found if isinstance(outcome, str))
    return EndedPods(sum(outcome is True for outcome in found), failures)


async def _end_pod(uid: str, end: Callable[[str], Awaitable[object]]) -> object:
    """Returns what `end` returns, or as text why the pod did not end."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            return await end(uid)
    except TimeoutError:
        return f"pod {uid} has not ended within {_END_SECONDS:g} s"
    except Exception as error:
        return f"pod {uid}: {described(error)}"


def _runtime(options: MachineOptions) -> Runtime:
    directories = [options.cdi_directory]
    # The agent may be killed and started again; pods that are not kept end with whoever starts it.
    ends_with = 0 if options.keep_pods else os.getppid()
    if options.runtime == "podman":
        from dray.node.runtimes.podman.runtime import PodmanRuntime

        return PodmanRuntime(
            options.root / "podman", address=options.address, cdi_directories=directories, ends_with=ends_with
        )
    from dray.node.runtimes.process import ProcessRuntime

    return ProcessRuntime(
        options.root / "run",
        address=options.address,
        cdi_directories=directories,
        plugins=options.root / "plugins",
        unknown_images_wait=options.simulated is not None,
        ends_with=ends_with,
    )
