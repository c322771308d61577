"""`dray apiserver`: the embedded API server by itself, with the controllers that namespaces and its clients need.

Without them a namespace that is deleted would stay for good, and no pod could be created in a new one, as it would have
no service account; quotas would say late how much is used, where kube-controller-manager counts; and programs that
leave it to the server which of them leads would wait for ever. Other processes may run the same controllers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from dray.cli.serving import failing_plainly, log_to_stderr, run, server_options, serving, stopping

if TYPE_CHECKING:
    from dray.server.running import Options, RunningServer

_CONTROLLERS: Final = (
    "namespace",
    "serviceaccount",
    "serviceaccount-token",
    "root-ca-cert-publisher",
    "resourcequota",
    "leader-election",
)


@click.command()
@serving
def apiserver(**given: Any) -> None:
    """Run only the API server, until interrupted.

    It serves the Kubernetes API with TLS, RBAC and admission. `dray up` runs it together with scheduler, controllers
    and node.

    \b
    Examples:
      dray apiserver --kubeconfig admin.kubeconfig
      dray apiserver --data /var/lib/dray/api --bind 0.0.0.0 --name lab.example.com

    Exit status: 0 interrupted, 2 the server cannot start.
    """
    log_to_stderr()
    options = server_options(**given)
    with failing_plainly():
        sys.exit(run(_serve(options)))


async def _serve(options: Options) -> int:
    from dray.process.memory import collect_rarely
    from dray.server.running import RunningServer

    stop = stopping()
    async with RunningServer(options).running() as server, controlling(server):
        collect_rarely()
        click.echo(f"Serving the Kubernetes API at {server.url}")
        if options.kubeconfig is not None:
            click.echo(f"export KUBECONFIG={options.kubeconfig.absolute()}")
        await stop.wait()
    return 0


@asynccontextmanager
async def controlling(server: RunningServer) -> AsyncIterator[None]:
    """Runs the controllers that belong to the server."""
    from dray.client.api import ApiClient
    from dray.control_plane.control_plane import ControlPlane, PlaneOptions
    from dray.server.inprocess import InProcessTransport

    client = ApiClient(InProcessTransport(server.application))
    running = asyncio.create_task(ControlPlane(client, PlaneOptions(controllers=_CONTROLLERS)).run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
