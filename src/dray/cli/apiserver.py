"""`dray apiserver`: the embedded API server by itself."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from pathlib import Path

import click

from dray.api.gates import ALL_GATES, FeatureGates, GateError
from dray.server.running import Options, RunningServer
from dray.server.security.authority import AuthorityError
from dray.server.security.kubeconfig import KubeconfigError
from dray.server.security.loopback import ListenError
from dray.server.security.private_files import ExposedFileError
from dray.store.interface import StoreError


def _gates(ctx: click.Context, param: click.Parameter, value: str) -> FeatureGates:
    """On top of everything: the server has all features on."""
    try:
        asked = FeatureGates.parse(value)
    except GateError as error:
        raise click.BadParameter(str(error)) from None
    named = [item.partition("=")[0].strip() for item in value.split(",") if item.strip()]
    return ALL_GATES.switched(**{name: asked[name] for name in named if not name.startswith("All")})


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep everything in this directory. Without it, in memory: gone when the server ends.",
)
@click.option("--bind", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Listen on this address.")
@click.option("--port", default=6443, show_default=True, help="Listen on this port; 0 for any that is free.")
@click.option(
    "--insecure-http",
    is_flag=True,
    help="Speak plain HTTP, where everybody who reaches the port is the administrator. On loopback only.",
)
@click.option("--name", "names", multiple=True, metavar="NAME", help="Another name or address clients use; repeatable.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a kubeconfig for the administrator to this file.",
)
@click.option(
    "--audit-log",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write who did what to this file, as JSON lines.",
)
@click.option(
    "--feature-gates", "gates", default="", callback=_gates, metavar="A=false,B=true", help="All are on by default."
)
@click.option("--fsync", is_flag=True, help="Also survive a loss of power: flush the disk at every commit.")
def apiserver(
    data: Path | None,
    bind: str,
    port: int,
    insecure_http: bool,
    names: tuple[str, ...],
    kubeconfig: Path | None,
    audit_log: Path | None,
    gates: FeatureGates,
    fsync: bool,
) -> None:
    """Serve the Kubernetes API from this machine, until interrupted."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = Options(data, bind, port, insecure_http, gates, kubeconfig, audit_log, names, fsync)
    try:
        import uvloop

        uvloop.run(_serve(options))
    except (
        AuthorityError,
        ExposedFileError,
        KubeconfigError,
        ListenError,
        OSError,
        StoreError,
    ) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


async def _serve(options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with RunningServer(options).running() as server:
        # What is there by now stays: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        click.echo(f"Serving the Kubernetes API at {server.url}")
        if options.kubeconfig is not None:
            click.echo(f"export KUBECONFIG={options.kubeconfig}")
        await stop.wait()
