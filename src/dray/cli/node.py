"""`dray node`: this machine as a node of a cluster that has no kubelet on it."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.cluster import Where, ending, reaching
from dray.cli.machine import RUNTIMES, Machine, MachineOptions, quiet_grpc
from dray.cli.serving import log_to_stderr, run, stopping

if TYPE_CHECKING:
    from dray.client.endpoint import Endpoint


@click.command()
@reaching
@click.option("--node-name", default="", metavar="NAME", help="Without it, the name of this machine.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/dray"),
    show_default=True,
    help="Holds volumes, logs, state; drivers find plugins_registry and plugins in it.",
)
@click.option("--address", default="", metavar="IP", help="At which others reach this machine.")
@click.option("--runtime", type=click.Choice(RUNTIMES), default="process", show_default=True)
@click.option("--driver", "drivers", multiple=True, default=("cpu",), show_default=True, help="Run in the agent.")
def node(
    kubeconfig: Path | None,
    context: str,
    node_name: str,
    root: Path,
    address: str,
    runtime: str,
    drivers: tuple[str, ...],
) -> None:
    """Run the pods that are bound to this machine, until interrupted; they go on running then.

    Exit status: 0 interrupted, 1 the server refused, 2 it cannot start.
    """
    log_to_stderr()
    quiet_grpc()
    name = node_name or socket.gethostname().lower()
    chosen = tuple(each for each in drivers if each != "none")
    options = MachineOptions(name, root, runtime, address or own_address(), chosen)
    try:
        ending(Where(kubeconfig, context, ""), lambda endpoint: run(_run(endpoint, options)))
    except PermissionError as error:
        click.echo(f"error: {error.strerror}: {error.filename}; give it a --root that it may write", err=True)
        sys.exit(2)


async def _run(endpoint: Endpoint, options: MachineOptions) -> int:
    from dray.client.api import ApiClient
    from dray.client.http import HttpTransport

    stop = stopping()
    async with ApiClient(HttpTransport(endpoint)) as client:
        await client.request("GET", "/version")
        machine = Machine(client, options)
        running = asyncio.create_task(machine.run())
        stopped = asyncio.create_task(stop.wait())
        greeting = asyncio.create_task(_greet(machine, endpoint.server))
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        for task in (running, stopped, greeting):
            task.cancel()
        (ended, *_) = await asyncio.gather(running, stopped, greeting, return_exceptions=True)
    if not stop.is_set() and isinstance(ended, BaseException):
        click.echo(f"error: node {options.node}: {ended}", err=True)
        return 1
    return 0


async def _greet(machine: Machine, server: str) -> None:
    await machine.ready.wait()
    click.echo(f"Node {machine.options.node} at {server}")


def own_address() -> str:
    """That of this machine on the way to others; nothing is sent to find it out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
