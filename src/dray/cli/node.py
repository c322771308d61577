"""`dray node`: this machine as a node of a cluster that has no kubelet on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.cluster import Where, ending, reaching
from dray.cli.machine import RUNTIMES, MachineOptions, check_runtime, own_name, quiet_grpc
from dray.cli.node_drivers import NodeDrivers, choose_drivers, driver_options
from dray.cli.serving import log_to_stderr, run

if TYPE_CHECKING:
    from dray.node.eviction.pressure import EvictionOptions

_KUBELET_PORT = 10250


@click.command()
@reaching
@click.option("--join", default="", metavar="URL", help="URL of the API server to join.")
@click.option("--token", default="", envvar="DRAY_JOIN_TOKEN", help="Token printed by `dray join-token`.")
@click.option(
    "--ca-hash",
    default="",
    metavar="sha256:HEX",
    help="Hash of the server's certificate authority, printed by `dray join-token`.",
)
@click.option("--node-name", default="", metavar="NAME", help="Node name. Default: the host name.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/dray"),
    show_default=True,
    help="Directory for volumes, logs and state, and for the sockets of drivers.",
)
@click.option("--address", default="", metavar="IP", help="Address at which other machines reach this one.")
@click.option(
    "--port",
    default=_KUBELET_PORT,
    show_default=True,
    help="Port for the API server, which fetches logs and runs commands here; 0: any free port.",
)
@click.option("--runtime", type=click.Choice(RUNTIMES), default="process", show_default=True, help="Container runtime.")
@click.option(
    "--manifests",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory with static pods; they run even without the API server.",
)
@click.option(
    "--eviction-hard",
    default="memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%",
    show_default=True,
    metavar="SIGNAL<AMOUNT,...",
    help="Evict pods at once below these limits.",
)
@click.option(
    "--eviction-soft",
    default="",
    metavar="SIGNAL<AMOUNT,...",
    help="Evict pods below these limits after a grace period.",
)
@click.option(
    "--eviction-soft-grace-period", default="", metavar="SIGNAL=TIME,...", help="Grace periods for --eviction-soft."
)
@click.option(
    "--eviction-pressure-transition-period",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Time before the node reports that pressure is over.",
)
@driver_options
def node(
    kubeconfig: Path | None,
    context: str,
    join: str,
    token: str,
    ca_hash: str,
    node_name: str,
    root: Path,
    address: str,
    port: int,
    runtime: str,
    manifests: Path | None,
    eviction_hard: str,
    eviction_soft: str,
    eviction_soft_grace_period: str,
    eviction_pressure_transition_period: str,
    drivers: tuple[str, ...],
    no_drivers: tuple[str, ...],
) -> None:
    """Run the pods of this machine, until interrupted.

    With --join the machine becomes a node of a cluster on another machine; `dray join-token` prints the whole command
    there. The certificates are stored in pki under --root, so that `dray node` alone starts it again. Pods keep running
    when the agent ends.

    \b
    Examples:
      dray node --join https://10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:HEX
      dray node
      dray node --runtime podman --no-driver tpu

    Exit status: 0 interrupted, 1 the server refused, 2 it cannot start.
    """
    from dray.cli import node_running
    from dray.client.errors import ConfigError
    from dray.driver import DriverError
    from dray.node.errors import NodeError
    from dray.server.listening import ListenError, own_address
    from dray.server.security.private_files import ExposedFileError

    check_runtime(runtime)
    log_to_stderr()
    quiet_grpc()
    name = own_name(node_name)
    found = NodeDrivers() if "none" in drivers else choose_drivers(drivers, no_drivers)
    for line in found.lines:
        click.echo(line)
    eviction = _eviction(eviction_hard, eviction_soft, eviction_soft_grace_period, eviction_pressure_transition_period)
    options = MachineOptions(
        name, root, runtime, address, found.drivers, port=port, manifests=manifests, eviction=eviction
    )
    try:
        if join or (node_running.has_joined(options) and not (kubeconfig or context)):
            node_running.run_joined(options, join, token, ca_hash)
        elif token or ca_hash:
            raise ConfigError("--token and --ca-hash go with --join")
        options = node_running.at_address(options, own_address())
        ending(Where(kubeconfig, context, ""), lambda endpoint: run(node_running.serve(endpoint, options)))
    except PermissionError as error:
        click.echo(f"error: {error.strerror}: {error.filename}; give it a --root that it may write", err=True)
    except (ConfigError, DriverError, ExposedFileError, ListenError, NodeError) as error:
        click.echo(f"error: {error}", err=True)
    sys.exit(2)


def _eviction(hard: str, soft: str, graces: str, transition: str) -> EvictionOptions:
    from dray.node.eviction.pressure import EvictionOptions
    from dray.node.eviction.thresholds import ThresholdError, duration, parse_hard, parse_soft

    try:
        return EvictionOptions(parse_hard(hard), parse_soft(soft, graces), duration(transition))
    except ThresholdError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
