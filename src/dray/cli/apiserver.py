"""`dray apiserver`: the embedded API server by itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from dray.cli.serving import failing_plainly, log_to_stderr, run, server_options, serving, stopping

if TYPE_CHECKING:
    from dray.server.running import Options


@click.command()
@serving
def apiserver(**given: Any) -> None:
    """Serve the Kubernetes API from this machine, until interrupted."""
    log_to_stderr()
    options = server_options(**given)
    with failing_plainly():
        sys.exit(run(_serve(options)))


async def _serve(options: Options) -> int:
    from dray.process.memory import collect_rarely
    from dray.server.running import RunningServer

    stop = stopping()
    async with RunningServer(options).running() as server:
        collect_rarely()
        click.echo(f"Serving the Kubernetes API at {server.url}")
        if options.kubeconfig is not None:
            click.echo(f"export KUBECONFIG={options.kubeconfig}")
        await stop.wait()
    return 0
