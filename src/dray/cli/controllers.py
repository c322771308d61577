"""`dray controllers`: the controllers by themselves, for any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.api.gates import FeatureGates
from dray.cli.cluster import Where, reaching
from dray.cli.components import choosing, identity, leading, run_against
from dray.cli.guard import forcing, of_controllers
from dray.cli.metrics import MetricsAddress, metrics_options
from dray.cli.notifying import notification_options, notifying
from dray.cli.serving import client_gates_option

if TYPE_CHECKING:
    from dray.controllers.environment import RootCertificate


def _root_certificate(path: Path | None) -> RootCertificate:
    from cryptography import x509

    from dray.controllers.environment import RootCertificate

    if path is None:
        return RootCertificate()
    try:
        content = path.read_bytes()
        x509.load_pem_x509_certificates(content)
        return RootCertificate(content.decode(), given=True)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}") from None
    except ValueError:
        raise click.BadParameter(f"{path} has no certificate in PEM") from None


@click.command()
@reaching
@choosing
@client_gates_option
@leading("dray-controllers")
@forcing
@click.option(
    "--root-ca-file",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=lambda _, __, value: _root_certificate(value),
    help="Certificate authority for the ConfigMap kube-root-ca.crt. Default: the one in kube-system, or the one in the "
    "kubeconfig.",
)
@notifying
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
    root_ca_file: RootCertificate,
    metrics_bind: str,
    metrics_port: int | None,
    **given: Any,
) -> None:
    """Run only the controllers, until interrupted.

    They create claims from templates, release claims, evict pods from broken devices, and clean up. If
    kube-controller-manager runs in the cluster, controllers that it also runs are not started, unless --force is given;
    switch them off there first.

    If the server is down or refuses, the controllers wait and try again.

    \b
    Examples:
      dray controllers --kubeconfig admin.kubeconfig
      dray controllers --controllers 'resourceclaim,device-taint-eviction' --metrics-port 9091

    Exit status: 0 interrupted, 1 the lease was lost or another component does the same work, 2 the kubeconfig cannot be
    used or metrics cannot be served.
    """
    from dray.control_plane.control_plane import Lease, PlaneOptions

    if not controllers:
        raise click.UsageError("--controllers selects no controller")
    lease = Lease(namespace=lease_namespace, name=lease_name, identity=identity()) if leader_elect else None
    notifications = notification_options(**given)
    options = PlaneOptions(None, controllers, lease, gates=gates, root=root_ca_file, notifications=notifications)
    title = f"Running {', '.join(controllers)}"
    guard = of_controllers(controllers, f"{lease_namespace}/{lease_name}" if leader_elect else "", force=force)
    run_against(Where(kubeconfig, context, ""), options, MetricsAddress(metrics_bind, metrics_port), title, guard)
