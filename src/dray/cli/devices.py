"""`dray devices`: the devices of a cluster as a table, each with its state and who holds it."""

from __future__ import annotations

from pathlib import Path

import click

from dray.allocation.device_states import STATES
from dray.answers.devices import find_devices
from dray.answers.views.device_tables import lines
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.output_formats import output_option, structured


@click.command()
@click.option("--node", "nodes", multiple=True, metavar="NAME", help="Show devices of this node only; repeatable.")
@click.option(
    "--driver", "drivers", multiple=True, metavar="NAME", help="Show devices of this driver only; repeatable."
)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Show devices in this state only; repeatable."
)
@output_option("table", "wide", "json", "yaml", "name")
@sourced
def devices(
    nodes: tuple[str, ...],
    drivers: tuple[str, ...],
    states: tuple[str, ...],
    output: str,
    kubeconfig: Path | None,
    context: str,
    snapshot: Path | None,
) -> None:
    """List devices, their state, and the claims and pods that use them.

    \b
    Examples:
      dray devices
      dray devices --state free --node p4d-24xlarge-0
      dray devices -o wide
      dray devices --state free -o name
      dray devices --snapshot monday.snapshot

    Exit status: 0 printed, 1 the server refused or there is no such node or driver, 2 the server cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        answer = await find_devices(cluster, nodes, drivers, states)
        found = list(answer.states)
        if output == "name":
            click.echo("".join(f"{'/'.join(device.place)}\n" for device in found), nl=False)
            return 0
        if output not in ("table", "wide"):
            click.echo(structured(answer.document, output), nl=False)
            return 0
        for line in lines(found, wide=output == "wide"):
            click.echo(line)
        click.echo(answer.summary, err=True)
        return 0

    ask(Where(kubeconfig, context, "", snapshot), work)
