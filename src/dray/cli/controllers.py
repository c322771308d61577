"""`dray controllers`: the controllers by themselves, for any API server."""

from __future__ import annotations

from pathlib import Path

import click

from dray.api.gates import FeatureGates
from dray.cli.cluster import Where
from dray.cli.metrics import Place, metrics_options
from dray.cli.planes import choosing, identity, leading, reaching, run_against
from dray.cli.serving import client_gates_option


@click.command()
@reaching
@choosing
@client_gates_option
@leading("dray-controllers")
@metrics_options
def controllers(
    kubeconfig: Path | None,
    context: str,
    controllers: tuple[str, ...],
    gates: FeatureGates,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    metrics_bind: str,
    metrics_port: int | None,
) -> None:
    """Make claims from templates, release them, evict from broken devices, and clean up.

    In a cluster where kube-controller-manager runs, switch off what it does, or run none of them. It runs until it is
    interrupted.

    Exit status: 0 interrupted, 1 the lease was lost or the server refused, 2 the server cannot be reached.
    """
    from dray.plane.plane import Lease, PlaneOptions

    if not controllers:
        raise click.UsageError("--controllers leaves none to run")
    lease = Lease(lease_namespace, lease_name, identity()) if leader_elect else None
    options = PlaneOptions(None, controllers, lease, gates=gates)
    title = f"Running {', '.join(controllers)}"
    run_against(Where(kubeconfig, context, ""), options, Place(metrics_bind, metrics_port), title)
