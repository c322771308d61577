"""`dray queue`: the tree of queues with quota and use, and of one queue what runs, what waits in order, and why."""

from __future__ import annotations

from pathlib import Path

import click

from dray.answers.queue import find_queues
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.output_formats import output_option, structured
from dray.cli.warnings import warn


@click.command()
@click.argument("name", default="", metavar="[NAME]")
@output_option("table", "json", "yaml", "name")
@sourced
def queue(name: str, output: str, kubeconfig: Path | None, context: str, snapshot: Path | None) -> None:
    """Show queues as a tree: what each uses of its quota, what is left, its share, and the number of pending pods.

    Each queue has one row, and each resource a column with USED/QUOTA, as in `2/8, 4+1 left, 2 lent`: of the quota of
    8, pods of the queue use 2, 4 are free and 2 are lent to other queues; 1 more can be borrowed. SHARE of a KAI queue
    is its fair share. SHARE of a Kueue queue is borrowed / lendable, divided by its weight.

    With NAME it shows that queue or cohort and everything below it, with all resources and flavors, who has borrowed
    quota from whom, the running pods and groups, and the pending ones in order, each with its reason.

    \b
    Examples:
      dray queue
      dray queue team-a
      dray queue -o json
      dray queue team-a --snapshot monday.snapshot

    Exit status: 0 printed, 1 the server refused or the queue does not exist, 2 the server cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        answer = await find_queues(cluster, name, warn)
        if output == "name":
            click.echo("".join(f"{each.name}\n" for top in answer.queues for each in top.all()), nl=False)
        elif output != "table":
            click.echo(structured(answer.document, output), nl=False)
        else:
            click.echo(answer.text, nl=False)
        return 0

    ask(Where(kubeconfig, context, "", snapshot), work)
