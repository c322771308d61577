"""`dray topology`: where the devices of nodes sit, what is free, and who holds the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dray.answers.devices import listed_devices
from dray.answers.manifests.reading import read
from dray.answers.topology import Topology, devices_of_reading, topology_of
from dray.cli.allocate import asked
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.output_formats import output_option, structured
from dray.cli.warnings import warn


@click.command()
@click.argument("node", default="", metavar="[NODE]")
@click.option(
    "--filename", "-f", "paths", multiple=True, metavar="PATH", help="Read manifests instead of a cluster; repeatable."
)
@output_option("text", "json", "yaml", "svg")
@sourced
def topology(
    node: str, paths: tuple[str, ...], output: str, kubeconfig: Path | None, context: str, snapshot: Path | None
) -> None:
    """Draw the sockets, NUMA nodes and PCIe roots of NODE or of all nodes, with their devices.

    The devices come from a cluster, or with -f from manifests. Devices that the pods and claims in manifests would get
    are shown as in use.

    \b
    Examples:
      dray topology
      dray topology p4d-24xlarge-0
      dray topology -f examples/lab -o svg > lab.svg
      dray topology --snapshot monday.snapshot

    Exit status: 0 drawn, 1 the server refused, 2 the node does not exist, or the server cannot be reached.
    """
    if paths:
        states = asked(lambda: devices_of_reading(read(paths), warn))
        sys.exit(_show(asked(lambda: topology_of(states, node)), output))

    async def work(cluster: Cluster) -> int:
        return _show(topology_of(await listed_devices(cluster), node), output)

    ask(Where(kubeconfig, context, "", snapshot), work)


def _show(answer: Topology, output: str) -> int:
    if output == "svg":
        click.echo(answer.svg, nl=False)
    else:
        click.echo(answer.text if output == "text" else structured(answer.document, output), nl=False)
    return 0
