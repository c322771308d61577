"""`dray up`: its options, and what they mean for the parts of the cluster that `running_cluster` runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dray.answers.manifests.reading import Manifest, read
from dray.answers.one_line import one_line
from dray.cli import detaching
from dray.cli.components import SCHEDULER_OPTIONS, choosing, scheduling
from dray.cli.fleet_choice import chosen_fleet, chosen_machines
from dray.cli.metrics import MetricsAddress, metrics_options
from dray.cli.node_drivers import ChosenDriver, NodeDrivers, choose_drivers, driver_options
from dray.cli.notifying import NOTIFICATION_OPTIONS, notification_options, notifying
from dray.cli.running_cluster import ClusterOptions, run_cluster
from dray.cli.serving import failing_plainly, log_to_stderr, server_options, serving
from dray.cli.up_address import resolved
from dray.process.up_state import default_data

if TYPE_CHECKING:
    from dray.cli.control_plane_process import Orders
    from dray.cli.machine import MachineOptions
    from dray.fleet.machine import Machine as FleetMachine
    from dray.server.running import Options

_KUBECONFIG: Final = "kubeconfig"
_TEMPORARY_KUBECONFIG: Final = "dray.kubeconfig"


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@serving
@scheduling
@choosing
@notifying
@metrics_options
@click.option(
    "--fleet",
    "fleet",
    multiple=True,
    metavar="TYPE=COUNT,...|FILE",
    help="Simulate machines and their pods; thousands are possible. Repeatable.",
)
@click.option("--seed", type=int, help="Random seed; overrides the one in the fleet file.")
@click.option(
    "--simulate",
    multiple=True,
    metavar="TYPE=COUNT,...|FILE",
    help="Simulate the devices of machines and run their pods as local processes; at most 16 machines. Repeatable.",
)
@click.option("--node/--no-node", "with_node", default=False, help="Use this machine as a node.")
@click.option(
    "--runtime",
    type=click.Choice(("process", "podman")),
    default="process",
    show_default=True,
    help="Container runtime of --node: local processes, or podman.",
)
@driver_options
@click.option(
    "--join-token",
    is_flag=True,
    help="Let other machines join: listen on the network unless --bind is given, and print the command for them.",
)
@click.option("--detach", "-d", is_flag=True, help="Run in the background; `dray down` stops it.")
@click.option(
    "--merge-kubeconfig",
    is_flag=True,
    help="Add a context to your own kubeconfig and make it current while the cluster runs.",
)
def up(paths: tuple[str, ...], **given: Any) -> None:
    """Start a cluster on this machine, and run it until interrupted.

    --node makes this machine a node. Its pods run as local processes, or with --runtime podman as containers. dray
    finds its CPUs, NVIDIA GPUs and TPUs, offers them to pods, and prints what it found. --driver and --no-driver
    override this.

    --simulate adds nodes with simulated devices. Their pods run as local processes, and each pod sees only its own
    devices, in its environment and in nvidia-smi.

    --fleet adds simulated machines with simulated pods, thousands if you like. `dray fleet list` shows the machine
    types. FILE can define machine types, fleets and rules for pods.

    PATH is applied at the start: a YAML or JSON file, or a directory. A Node without a status gets the default: ready,
    64 cpu, 256Gi, 110 pods. Pods are placed on such nodes, but do not run.

    The kubeconfig is written to dray.kubeconfig, with --data DIR to DIR/kubeconfig, or to the file given with
    --kubeconfig.

    \b
    Examples:
      dray up --node
      dray up --node --simulate p4d.24xlarge
      dray up --fleet p5.48xlarge=4,cpu-64=2
      dray up --node --data ~/lab --detach

    Exit status: 0 interrupted, 1 a manifest was refused, 2 a file cannot be read or the server cannot start.
    """
    log_to_stderr()
    manifests = _manifests(paths)
    wanted = _Wanted(**{field.name: given.pop(field.name) for field in fields(_Wanted)})
    fleet = chosen_fleet(wanted.fleet, wanted.seed) if wanted.fleet else None
    simulated = chosen_machines(wanted.simulate) if wanted.simulate else ()
    data = wanted.data or (default_data() if wanted.detach else None)
    orders = _orders(given)
    server = _server(data, given, join_token=wanted.join_token)
    merged_as = _context_name(data) if wanted.merge_kubeconfig else ""
    announce_to = detaching.detach(data) if wanted.detach and data is not None else None
    drivers = choose_drivers(wanted.drivers, wanted.no_drivers) if wanted.with_node else NodeDrivers()
    runtime = wanted.runtime if wanted.with_node else ""
    with failing_plainly(), _node_options(data, runtime, drivers.drivers, simulated) as nodes:
        cluster = ClusterOptions(
            server,
            orders,
            manifests,
            fleet,
            nodes,
            wanted.join_token,
            merged_as,
            announce_to,
            devices=drivers.lines,
        )
        sys.exit(run_cluster(cluster))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of this command alone, by their names."""

    data: Path | None
    fleet: tuple[str, ...]
    seed: int | None
    simulate: tuple[str, ...]
    with_node: bool
    runtime: str
    drivers: tuple[str, ...]
    no_drivers: tuple[str, ...]
    join_token: bool
    detach: bool
    merge_kubeconfig: bool


def _manifests(paths: tuple[str, ...]) -> list[Manifest]:
    reading = read(paths)
    for problem in reading.problems:
        click.echo(one_line(str(problem)), err=True)
    if reading.problems:
        sys.exit(2)
    return reading.manifests


def _orders(given: dict[str, Any]) -> Orders:
    """Takes from the options those of scheduler, controllers, their metrics and notifications."""
    from dray.cli.control_plane_process import Orders

    scheduler = {name: given.pop(name) for name in SCHEDULER_OPTIONS}
    metrics = MetricsAddress(given.pop("metrics_bind"), given.pop("metrics_port"))
    notifications = notification_options(**{name: given.pop(name) for name in NOTIFICATION_OPTIONS})
    return Orders(scheduler, given.pop("controllers"), given["gates"], metrics, notifications)


def _server(data: Path | None, given: dict[str, Any], *, join_token: bool) -> Options:
    """Builds the options of the API server from the remaining options."""
    given = resolved(data, given, join_token=join_token)
    kubeconfig = given.pop("kubeconfig") or (data / _KUBECONFIG if data is not None else Path(_TEMPORARY_KUBECONFIG))
    return server_options(data=data, kubeconfig=kubeconfig, **given)


def _context_name(data: Path | None) -> str:
    """Clusters with different directories do not replace each other."""
    return "dray" if data is None or data == default_data() else f"dray-{data.absolute().name}"


@contextmanager
def _node_options(
    data: Path | None, runtime: str, drivers: tuple[ChosenDriver, ...], simulated: tuple[FleetMachine, ...]
) -> Iterator[list[MachineOptions]]:
    """With `--data` what a node keeps is in it, and its pods go on running; otherwise they end with the cluster.

    Without a runtime this machine is no node.
    """
    import tempfile

    from dray.cli import machine
    from dray.node import subpath_mounts
    from dray.process import beneath

    def made(root: Path, *, keep_pods: bool) -> list[MachineOptions]:
        own = machine.MachineOptions(name, root / "node", runtime or "process", drivers=drivers, keep_pods=keep_pods)
        return [*([own] if runtime else []), *(machine.simulated(node, own) for node in simulated)]

    machine.check_runtime(runtime)
    name = machine.own_name() if runtime else ""
    if data is not None or not (runtime or simulated):
        yield made((data or Path()).absolute(), keep_pods=True)
    else:
        root = Path(tempfile.mkdtemp(prefix="dray-"))
        try:
            yield made(root, keep_pods=False)
        finally:
            # An agent that was killed may have left a volume of the machine mounted, which must not be emptied.
            subpath_mounts.release_all(root / "node")
            beneath.remove_tree(root)
