"""`dray logs`: what a container of a pod wrote, for machines without kubectl."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dray.cli.cluster import Cluster, Where, ask, located


@click.command()
@click.argument("pod")
@click.option("--container", "-c", default="", metavar="NAME", help="Of several.")
@click.option("--follow", "-f", is_flag=True, help="Until the container ends.")
@click.option("--previous", "-p", is_flag=True, help="Of the run before this one.")
@click.option("--tail", type=click.IntRange(0), metavar="LINES", help="The last lines only.")
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
    """Print what a container of POD wrote.

    Exit status: 0 printed, 1 the server refused, 2 it cannot be asked.
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
