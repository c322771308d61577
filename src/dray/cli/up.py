"""`dray up`: an API server, scheduler and controllers in a second process, and manifests applied at the start."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.api.gates import FeatureGates
from dray.cli.apply import FIELD_MANAGER, apply_manifests
from dray.cli.cluster import Cluster
from dray.cli.components import choosing, scheduling
from dray.cli.fleet_choice import chosen_fleet, chosen_machines
from dray.cli.manifests import Manifest, read
from dray.cli.metrics import MetricsAddress, metrics_options
from dray.cli.reports import one_line
from dray.cli.rest_mapping import Target
from dray.cli.serving import failing_plainly, log_to_stderr, run, server_options, serving, stopping

if TYPE_CHECKING:
    from dray.cli.control_plane_process import Orders
    from dray.cli.machine import MachineOptions
    from dray.cli.node_transports import NodeTransports
    from dray.client.transport import Transport
    from dray.control_plane.child import Child
    from dray.fleet.choice import Chosen
    from dray.fleet.machine import Machine as FleetMachine
    from dray.server.inprocess import InProcessTransport
    from dray.server.running import Options, RunningServer

_KUBECONFIG: Final = "kubeconfig"
_TEMPORARY_KUBECONFIG: Final = "dray.kubeconfig"
_STARTED: Final = time.perf_counter()


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@serving
@scheduling
@choosing
@metrics_options
@click.option(
    "--fleet",
    "fleet",
    multiple=True,
    metavar="TYPE=COUNT,...|FILE",
    help="Simulate these machines: nodes, devices, and pods that live by rule; repeatable.",
)
@click.option("--seed", type=int, help="Of the chances in a fleet, instead of the one its file has.")
@click.option(
    "--simulate",
    multiple=True,
    metavar="TYPE=COUNT,...|FILE",
    help="Nodes with the devices of these machines, whose pods run as processes of this one; repeatable.",
)
@click.option("--node/--no-node", "with_node", default=False, help="Make this machine a node that runs pods.")
def up(
    paths: tuple[str, ...],
    data: Path | None,
    kubeconfig: Path | None,
    gates: FeatureGates,
    scheduler_name: str,
    devices: str,
    node_devices: str,
    device_preemption: bool,
    plugins: tuple[str, ...],
    controllers: tuple[str, ...],
    metrics_bind: str,
    metrics_port: int | None,
    fleet: tuple[str, ...],
    seed: int | None,
    simulate: tuple[str, ...],
    with_node: bool,
    **given: Any,
) -> None:
    """Run a cluster on this machine, until interrupted.

    The manifests in PATH (YAML, JSON, directories of them) are applied: nodes, slices and classes, and whatever else
    should be there. A Node that says nothing about its status is ready, with 64 cpu, 256Gi of memory and room for 110
    pods. Pods are placed on such nodes; nothing runs them.

    With --fleet there are simulated machines too, as `dray fleet list` shows them: --fleet p5.48xlarge=4,cpu-64=2. On
    these pods start, run and end by rule. FILE has machine types, fleets and rules of your own.

    With --simulate there are nodes with the devices of such machines, whose pods run as processes here: each sees the
    devices that it was given, and those alone, in its environment and with nvidia-smi.

    With --node this machine is a node too. Pods on it run as processes, and its CPUs are devices of class dra.cpu.

    The kubeconfig is written to DIR/kubeconfig with --data DIR, else to dray.kubeconfig, unless --kubeconfig says
    otherwise.

    Exit status: 0 interrupted, 1 a manifest was refused, 2 a file cannot be read or the server cannot start.
    """
    from dray.cli.control_plane_process import Orders

    log_to_stderr()
    reading = read(paths)
    for problem in reading.problems:
        click.echo(one_line(str(problem)), err=True)
    if reading.problems:
        sys.exit(2)
    chosen = chosen_fleet(fleet, seed) if fleet else None
    simulated = chosen_machines(simulate) if simulate else ()
    kubeconfig = kubeconfig or (data / _KUBECONFIG if data is not None else Path(_TEMPORARY_KUBECONFIG))
    options = server_options(data=data, kubeconfig=kubeconfig, gates=gates, **given)
    asked = {
        "scheduler_name": scheduler_name,
        "devices": devices,
        "node_devices": node_devices,
        "device_preemption": device_preemption,
        "plugins": plugins,
    }
    orders = Orders(asked, controllers, gates, MetricsAddress(metrics_bind, metrics_port))
    with failing_plainly(), _node_options(data, with_node, simulated) as nodes:
        sys.exit(run(_up(options, orders, reading.manifests, chosen, nodes)))


@contextmanager
def _node_options(
    data: Path | None, itself: bool, simulated: tuple[FleetMachine, ...]
) -> Iterator[list[MachineOptions]]:
    """With `--data` what a node keeps is in it, and its pods go on running; otherwise they end with the cluster."""
    import socket
    import tempfile

    from dray.cli import machine

    def made(root: Path, *, keep_pods: bool) -> list[MachineOptions]:
        own = machine.MachineOptions(name, root / "node", keep_pods=keep_pods)
        return [*([own] if itself else []), *(machine.simulated(each, own) for each in simulated)]

    name = socket.gethostname().lower()
    if data is not None or not (itself or simulated):
        yield made((data or Path()).absolute(), keep_pods=True)
    else:
        with tempfile.TemporaryDirectory(prefix="dray-", ignore_cleanup_errors=True) as root:
            yield made(Path(root), keep_pods=False)


async def _up(
    options: Options,
    orders: Orders,
    manifests: list[Manifest],
    chosen: Chosen | None,
    nodes: list[MachineOptions],
) -> int:
    from dray.cli import control_plane_process, fleet_process, node_process
    from dray.server.running import RunningServer

    stop = stopping()
    running = RunningServer(options)
    transport = _transport(running)
    parts: list[tuple[Child, Transport]] = [(control_plane_process.child(orders), transport)]
    if chosen is not None:
        parts.append((fleet_process.child(chosen), transport))
    if nodes:
        child = node_process.child([_trusting(running, each) for each in nodes])
        parts.append((child, _node_transports(running, nodes)))
    children = [child for child, _ in parts]
    try:
        for child in children:
            # It loads while the server starts and the manifests are applied.
            await child.start()
        async with running.running() as server:
            counts = await _apply(transport, manifests)
            if counts is None:
                return 1
            await _make_classes(transport, nodes)
            for child in children:
                server.context.health.watch(child.problems)
                server.context.health.watch_optional(child.plugins)
            return await _work(parts, stop, _greet(children, server, counts))
    finally:
        await _stop(children)


def _trusting(server: RunningServer, node: MachineOptions) -> MachineOptions:
    """The node shows the server a certificate of the server's authority, and takes the server's alone."""
    from dray.node.server.trust import local_trust

    authority = server.context.security.node_authority
    return replace(node, trust=local_trust(authority, node.node, [node.address]))


async def _work(parts: list[tuple[Child, Transport]], stop: asyncio.Event, greet: Coroutine[Any, Any, None]) -> int:
    """Until the stop."""
    working = [asyncio.create_task(child.run(transport)) for child, transport in parts]
    greeting = asyncio.create_task(greet)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((*working, stopped), return_when=asyncio.FIRST_COMPLETED)
        # They may still write while they end.
        await _stop([child for child, _ in parts])
        await asyncio.gather(*working)
    finally:
        for task in (*working, greeting, stopped):
            task.cancel()
        await asyncio.gather(*working, greeting, stopped, return_exceptions=True)
    return 0


async def _stop(children: list[Child]) -> None:
    await asyncio.gather(*(child.stop() for child in children))


async def _make_classes(transport: InProcessTransport, nodes: list[MachineOptions]) -> None:
    """The DeviceClasses of the nodes' drivers."""
    if not nodes:
        return
    from dray.cli.machine import drivers_of
    from dray.client.api import ApiClient
    from dray.fleet.registration import make_classes

    await make_classes(ApiClient(transport), [driver.name for each in nodes for driver in drivers_of(each)])


def _transport(server: RunningServer) -> InProcessTransport:
    from dray.server.authorization import AUTHENTICATED, MASTERS, User
    from dray.server.inprocess import InProcessTransport

    # A name of its own, so that the audit log tells it from the administrator.
    user = User("system:dray", (MASTERS, AUTHENTICATED))
    return InProcessTransport(server.application, user)


def _node_transports(server: RunningServer, nodes: list[MachineOptions]) -> NodeTransports:
    """An agent has the rights of its node, as one of another machine would: it runs what others wrote."""
    from dray.cli.node_transports import NodeTransports
    from dray.server.inprocess import InProcessTransport
    from dray.server.security.users import node_user

    return NodeTransports({each.node: InProcessTransport(server.application, node_user(each.node)) for each in nodes})


async def _apply(transport: InProcessTransport, manifests: list[Manifest]) -> Counter[str] | None:
    """How many of each kind; None if the server refused any."""
    from dray.client.interface import WriteOptions
    from dray.controllers import bare_nodes

    options = WriteOptions(FIELD_MANAGER, "Strict", force=True)
    counts: Counter[str] = Counter()
    cluster = Cluster(transport, "default", insists=False)
    # A node's status is written by itself, with what its manifest leaves out.
    nodes = {each.name: each.document for each in manifests if _is_node(each)}

    async def count(manifest: Manifest, target: Target, outcome: str) -> None:
        counts[target.kind.plural] += 1
        if _is_node(manifest):
            await bare_nodes.set_node_status(cluster.client, target.kind, nodes[manifest.name], options)

    plain = [_without_status(each) if _is_node(each) else each for each in manifests]
    return counts if await apply_manifests(cluster, plain, options, count) else None


def _is_node(manifest: Manifest) -> bool:
    return (manifest.api_version, manifest.kind) == ("v1", "Node")


def _without_status(manifest: Manifest) -> Manifest:
    return replace(manifest, document={name: each for name, each in manifest.document.items() if name != "status"})


async def _greet(children: list[Child], server: RunningServer, counts: Counter[str]) -> None:
    from dray.process.memory import collect_rarely

    for child in children:
        await child.ready.wait()
    collect_rarely()
    made = {"applied": counts, **{child.called: child.made for child in children}}
    lists = {name: ", ".join(f"{plural} {number}" for plural, number in each.items()) for name, each in made.items()}
    told = "; ".join(f"{name}: {text}" for name, text in lists.items() if text)
    click.echo(f"ready in {_seconds():.1f} s at {server.url}{f' ({told})' if told else ''}")
    for child in children:
        if child.metrics:
            click.echo(f"metrics at {child.metrics}")
    click.echo(f"export KUBECONFIG={server.options.kubeconfig}")


def _seconds() -> float:
    """Since the process began, where that can be told, else since this was loaded."""
    try:
        with open("/proc/self/stat") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        import os

        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return time.perf_counter() - _STARTED
