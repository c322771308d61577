"""The cluster of `dray up`: an API server in this process, and its other parts as processes of their own.

What the parts ask goes through the server's front door, each with the rights it has: the control plane those of an
administrator, an agent those of its node.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.manifests.reading import Manifest
from dray.cli.detaching import announce
from dray.cli.first_manifests import apply_first
from dray.cli.serving import run, stopping
from dray.process.identity import age
from dray.process.memory import loading
from dray.process.tasks import end_tasks

if TYPE_CHECKING:
    from dray.cli.control_plane_process import Orders
    from dray.cli.machine import MachineOptions
    from dray.cli.node_transports import NodeTransports
    from dray.client.transport import Transport
    from dray.control_plane.child import Child
    from dray.fleet.choice import Chosen
    from dray.server.authorization import User
    from dray.server.inprocess import InProcessTransport
    from dray.server.running import Options, RunningServer

_logger = logging.getLogger("dray.server")
# As long as the user waits, also where a part of that was spent in the process that goes on in the foreground.
_MOST_NAMED: Final = 8
_BEGAN: Final = time.perf_counter() - age()


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    server: Options
    orders: Orders
    """Options for the control plane process."""
    manifests: list[Manifest]
    """Applied before anything works."""
    fleet: Chosen | None = None
    nodes: Sequence[MachineOptions] = ()
    """Nodes that this machine runs, all in one process."""
    join_token: bool = False
    """Whether to print the line that brings another machine in."""
    merged_as: str = ""
    """The name of the context in the user's own kubeconfig, if it goes there too."""
    announce_to: int | None = None
    """The descriptor of whoever waits until it is ready."""
    devices: tuple[str, ...] = ()
    """Lines about the devices of this machine, printed when it is ready."""


def run_cluster(options: ClusterOptions) -> int:
    """Runs the cluster until it is stopped. Returns the exit status."""
    parts = _forked(options)
    return run(_run(options, parts))


@dataclass(frozen=True, slots=True)
class _Parts:
    control_plane: Child
    fleet: Child | None
    node: Child | None

    def all(self) -> list[Child]:
        return [child for child in (self.control_plane, self.fleet, self.node) if child is not None]


def _forked(options: ClusterOptions) -> _Parts:
    """Forks the processes of the parts; each loads the rest of its modules while the server starts."""
    with loading():
        from dray.cli import control_plane_process, fleet_process, node_process
        from dray.server import running  # noqa: F401

    parts = _Parts(
        control_plane_process.child(),
        fleet_process.child() if options.fleet is not None else None,
        node_process.child() if options.nodes else None,
    )
    # The one that loads most comes first.
    if parts.node is not None:
        parts.node.fork(node_process.main)
    parts.control_plane.fork(control_plane_process.main)
    if parts.fleet is not None:
        parts.fleet.fork(fleet_process.main)
    return parts


async def _run(options: ClusterOptions, parts: _Parts) -> int:
    from dray.cli.page import paged
    from dray.client.foreign_kinds import definitions
    from dray.server.running import RunningServer

    stop = stopping()
    children = parts.all()
    try:
        options = _showing_parts(options)
        running = RunningServer(replace(options.server, provided=definitions()))
        transport = _transport(running)
        work = await _started(options, parts, running, transport)
        async with running.running() as server:
            counts = await apply_first(transport, options.manifests)
            if counts is None:
                return 1
            await _make_classes(transport, options.nodes)
            for child in children:
                server.context.health.watch(child.problems)
                server.context.health.watch_optional(child.plugins)
            joining = await _invitation(transport) if options.join_token else []
            with _known(options, server):
                async with paged(server, transport):
                    status = await _work(work, stop, _greet(children, server, counts, joining, options))
                await _say_what_goes_on(transport, options)
                return status
    finally:
        await _stop(children)


async def _started(
    options: ClusterOptions, parts: _Parts, server: RunningServer, transport: Transport
) -> list[tuple[Child, Transport]]:
    """Starts the parts. Returns each with its transport to the server."""
    parts.control_plane.orders = pickle.dumps(options.orders)
    transports = {parts.control_plane: transport}
    if parts.fleet is not None:
        parts.fleet.orders = pickle.dumps(options.fleet)
        transports[parts.fleet] = transport
    if parts.node is not None:
        parts.node.orders = pickle.dumps([_trusting(server, node) for node in options.nodes])
        transports[parts.node] = _node_transports(server, options.nodes)
    for child in transports:
        await child.start()
    return list(transports.items())


def _showing_parts(options: ClusterOptions) -> ClusterOptions:
    """Shows the parts as pods of the first node, so that `kubectl logs` works; this process is one of them."""
    if not options.nodes:
        return options
    from dray.cli.part_logs import API_SERVER, PARTS, PartLogs, command
    from dray.node.host_parts import HostPart

    first, *others = options.nodes
    logs = PartLogs(first.root, first.node)
    logs.open(API_SERVER)
    shown = replace(first, host_parts=tuple(HostPart(part, command()) for part in PARTS))
    return replace(options, nodes=[shown, *others], orders=replace(options.orders, logs=logs))


@contextmanager
def _known(options: ClusterOptions, server: RunningServer) -> Iterator[None]:
    """Registers the cluster for `dray status` and `dray down`, and in the user's kubeconfig if asked for."""
    import os

    from dray.cli import own_kubeconfig, up_address
    from dray.client.clock import SystemTime, timestamp
    from dray.process import up_state
    from dray.process.identity import started_at

    pid = os.getpid()
    state = up_state.UpState(
        pid,
        started_at(pid),
        timestamp(SystemTime().now()),
        server.url,
        str((options.server.kubeconfig or Path()).absolute()),
        tuple(up_state.UpNode(node.node, str(node.root), node.runtime) for node in options.nodes),
        all(node.keep_pods for node in options.nodes),
    )
    up_address.remember(options.server)
    with ExitStack() as stack:
        _logger.info("serves the API at %s", server.url)
        stack.callback(_logger.info, "ends")
        if options.merged_as:
            document = server.kubeconfig(options.merged_as)
            stack.enter_context(own_kubeconfig.merged(own_kubeconfig.own_path(), document))
        stack.enter_context(up_state.kept(options.server.data, state))
        yield


def _trusting(server: RunningServer, node: MachineOptions) -> MachineOptions:
    """The node shows the server a certificate of the server's authority, and takes the server's alone."""
    from dray.node.server.trust import local_trust
    from dray.server.listening import WILDCARDS

    address = _address_of(server, node)
    trust = local_trust(server.context.security, node.node, [address])
    # What listens everywhere is reached from the network of a pod too.
    reached = server.url_at(address) if server.options.bind in WILDCARDS else server.url
    return replace(node, address=address, trust=trust, api_server=reached)


def _address_of(server: RunningServer, node: MachineOptions) -> str:
    """Returns the address that other machines can use for the node and its pods, if the server listens for them."""
    from dray.server.listening import WILDCARDS, own_address
    from dray.server.security.loopback import is_loopback

    bind = server.options.bind
    if bind in WILDCARDS:
        return own_address()
    return node.address if is_loopback(bind) else bind


async def _work(parts: list[tuple[Child, Transport]], stop: asyncio.Event, greet: Coroutine[Any, Any, None]) -> int:
    """Runs the parts until a signal comes or one of them ends."""
    working = [asyncio.create_task(child.run(transport)) for child, transport in parts]
    greeting = asyncio.create_task(greet)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((*working, stopped), return_when=asyncio.FIRST_COMPLETED)
        # They may still write while they end.
        await _stop([child for child, _ in parts])
        await asyncio.gather(*working)
    finally:
        await end_tasks((*working, greeting, stopped))
    return 0


async def _say_what_goes_on(transport: Transport, options: ClusterOptions) -> None:
    """Prints which pods of this machine keep running, and how to end them."""
    from dray.api.catalogue import built_in
    from dray.api.objects import key_of
    from dray.api.pods import node_of, phase_of
    from dray.client.api import ApiClient

    kept = {node.node for node in options.nodes if node.keep_pods}
    if not kept or options.server.data is None:
        return
    pods = (await ApiClient(transport).list_all(built_in("v1", "Pod")))["items"]
    names = ["/".join(key_of(pod)) for pod in pods if node_of(pod) in kept and phase_of(pod) == "Running"]
    names = [name for name in names if not name.startswith("kube-system/")]
    if names:
        data = options.server.data.absolute()
        shown = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" * (len(names) > _MOST_NAMED))
        one = len(names) == 1
        pods, them = ("1 pod keeps", "it") if one else (f"{len(names)} pods keep", "them")
        click.echo(
            f"stopped; {pods} running: {shown}. `dray up --data {data}` finds {them} again, "
            f"`dray down --pods --data {data}` ends {them}."
        )


async def _stop(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


async def _make_classes(transport: InProcessTransport, nodes: Sequence[MachineOptions]) -> None:
    """The DeviceClasses of the nodes' drivers."""
    if not nodes:
        return
    from dray.cli.machine import driver_names
    from dray.client.api import ApiClient
    from dray.drivers.class_creation import make_classes

    await make_classes(ApiClient(transport), [name for node in nodes for name in driver_names(node)])


def _transport(server: RunningServer) -> InProcessTransport:
    from dray.server.authorization import AUTHENTICATED, MASTERS, User
    from dray.server.inprocess import InProcessTransport

    # A name of its own, so that the audit log tells it from the administrator.
    user = User("system:dray", (MASTERS, AUTHENTICATED))
    return InProcessTransport(server.application, user)


def _node_transports(server: RunningServer, nodes: Sequence[MachineOptions]) -> NodeTransports:
    """An agent has the rights of its node, as one of another machine would: it runs what others wrote."""
    from dray.cli.node_transports import NodeTransports
    from dray.server.inprocess import InProcessTransport
    from dray.server.security.users import device_driver_user, node_user

    def as_(user: Callable[[str], User]) -> dict[str, Transport]:
        return {node.node: InProcessTransport(server.application, user(node.node)) for node in nodes}

    return NodeTransports(as_(node_user), as_(device_driver_user))


async def _invitation(transport: InProcessTransport) -> list[str]:
    from dray.cli.join_token import make_token
    from dray.client.api import ApiClient

    made = await make_token(ApiClient(transport))
    if made.is_local:
        return [f"this machine joins with: {made.command}", f"note: {made.only_here}"]
    return [f"other machines join with: {made.command}"]


async def _greet(
    children: list[Child],
    server: RunningServer,
    counts: Counter[str],
    joining: list[str],
    options: ClusterOptions,
) -> None:
    from dray.process.memory import collect_rarely

    for child in children:
        await child.ready.wait()
    collect_rarely()
    made = {"applied": counts, **{child.called: child.made for child in children}}
    lists = {name: ", ".join(f"{plural} {number}" for plural, number in each.items()) for name, each in made.items()}
    told = "; ".join(f"{name}: {text}" for name, text in lists.items() if text)
    lines = [f"ready in {time.perf_counter() - _BEGAN:.1f} s at {server.url}{f' ({told})' if told else ''}"]
    lines += options.devices
    lines += [f"metrics at {child.metrics}" for child in children if child.metrics]
    # Over plain HTTP everybody on this machine is the administrator.
    how = "" if server.options.plain else "; `dray ui --code` prints a sign-in code"
    lines += [f"web page at {server.url}/ui{how}"]
    lines += joining
    lines += [f"export KUBECONFIG={Path(server.options.kubeconfig or '').absolute()}"]
    text = "".join(f"{line}\n" for line in lines)
    # A token does not belong into a log.
    click.echo(text if options.announce_to is None else lines[0] + "\n", nl=False)
    if options.announce_to is not None:
        announce(options.announce_to, text)
