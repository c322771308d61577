"""`dray logs`: what a container of a pod wrote, for machines without kubectl."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dray.cli.cluster import Cluster, Where, ask, located


@click.command()
@click.argument("pod")
@click.option("--container", "-c", default="", metavar="NAME", help="Container name, if the pod has several.")
@click.option("--follow", "-f", is_flag=True, help="Print new output too, until the container ends.")
@click.option("--previous", "-p", is_flag=True, help="Print the log of the previous run.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="Print only this many lines from the end.")
@located
def logs(
    pod: str,
    container: str,
    follow: bool,
    previous: bool,
    tail: int | None,
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Print the output of a container of POD.

    \b
    Examples:
      dray logs training
      dray logs -f training -c main
      dray logs training --previous --tail 20

    Exit status: 0 printed, 1 the server refused, 2 the server cannot be reached, 130 interrupted.
    """
    query = {name: "true" for name, asked in (("follow", follow), ("previous", previous)) if asked}
    if container:
        query["container"] = container
    if tail is not None:
        query["tailLines"] = str(tail)

    async def work(cluster: Cluster) -> int:
        from dray.cli.pod_log import PODS
        from dray.client import interface

        path = interface.item(PODS, cluster.namespace, pod.removeprefix("pod/"), "log")
        async for chunk in cluster.client.stream(path, query=query):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        return 0

    try:
        ask(Where(kubeconfig, context, namespace), work)
    except KeyboardInterrupt:
        # The usual end of --follow.
        sys.exit(130)
