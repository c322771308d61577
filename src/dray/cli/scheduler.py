"""`dray scheduler`: the scheduler by itself, for any API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dray.api.gates import FeatureGates
from dray.cli.cluster import Where, reaching
from dray.cli.components import identity, leading, run_against, scheduler_options, scheduling
from dray.cli.guard import forcing, of_scheduler
from dray.cli.metrics import MetricsAddress, metrics_options
from dray.cli.serving import client_gates_option


@click.command()
@reaching
@scheduling
@client_gates_option
@leading("dray-scheduler")
@click.option(
    "--share-devices/--no-share-devices",
    "shares",
    default=None,
    help="Coordinate devices with other schedulers of dray in this cluster. Default: on without leader election.",
)
@forcing
@metrics_options
def scheduler(
    kubeconfig: Path | None,
    context: str,
    gates: FeatureGates,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    shares: bool | None,
    force: bool,
    metrics_bind: str,
    metrics_port: int | None,
    **given: Any,
) -> None:
    """Run only the scheduler, until interrupted.

    It works with Kubernetes 1.34 to 1.37: beside kube-scheduler with its own --scheduler-name, or instead of it. If
    kube-scheduler serves the same name, it does not start, unless --force is given.

    If the server is down or refuses, the scheduler waits and tries again.

    \b
    Examples:
      dray scheduler --scheduler-name dray
      dray scheduler --scheduler-name dray --policy pack --metrics-port 9090

    Exit status: 0 interrupted, 1 the lease was lost or another scheduler does the same work, 2 the kubeconfig cannot be
    used or metrics cannot be served.
    """
    from dray.control_plane.control_plane import Lease, PlaneOptions
    from dray.scheduling_loop.loop import Sharing

    name = identity()
    options = PlaneOptions(
        scheduler_options(gates=gates, **given),
        controllers=(),
        lease=Lease(namespace=lease_namespace, name=lease_name, identity=name) if leader_elect else None,
        sharing=Sharing(lease_namespace, name) if (shares if shares is not None else not leader_elect) else None,
        gates=gates,
    )
    title = f"Scheduling the pods of {given['scheduler_name']}"
    lease = f"{lease_namespace}/{lease_name}" if leader_elect else ""
    guard = of_scheduler(given["scheduler_name"], lease, force=force)
    run_against(Where(kubeconfig, context, ""), options, MetricsAddress(metrics_bind, metrics_port), title, guard)
