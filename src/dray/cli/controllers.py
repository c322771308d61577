"""`dray controllers`: the controllers by themselves, for any API server."""

from __future__ import annotations

from pathlib import Path

import click

from dray.api.gates import FeatureGates
from dray.cli.cluster import Where, reaching
from dray.cli.components import choosing, identity, leading, run_against
from dray.cli.guard import forcing, of_controllers
from dray.cli.metrics import MetricsAddress, metrics_options
from dray.cli.serving import client_gates_option


@click.command()
@reaching
@choosing
@client_gates_option
@leading("dray-controllers")
@forcing
@metrics_options
def controllers(
    kubeconfig: Path | None,
    context: str,
    controllers: tuple[str, ...],
    gates: FeatureGates,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    force: bool,
    metrics_bind: str,
    metrics_port: int | None,
) -> None:
    """Make claims from templates, release them, evict from broken devices, and clean up.

    In a cluster where kube-controller-manager runs, switch off there what is to run here, and say --force; without it,
    what that one does too does not start. It runs until it is interrupted.

    A server that is down, or that refuses, is waited for.

    Exit status: 0 interrupted, 1 the lease was lost, or another is at work, 2 the kubeconfig cannot be used, or metrics
    cannot be served.
    """
    from dray.control_plane.control_plane import Lease, PlaneOptions

    if not controllers:
        raise click.UsageError("--controllers leaves none to run")
    lease = Lease(namespace=lease_namespace, name=lease_name, identity=identity()) if leader_elect else None
    options = PlaneOptions(None, controllers, lease, gates=gates)
    title = f"Running {', '.join(controllers)}"
    guard = of_controllers(controllers, f"{lease_namespace}/{lease_name}" if leader_elect else "", force=force)
    run_against(Where(kubeconfig, context, ""), options, MetricsAddress(metrics_bind, metrics_port), title, guard)
