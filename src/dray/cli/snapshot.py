"""`dray snapshot`: everything that the scheduler reads from a cluster, in one file without secrets."""

from __future__ import annotations

from pathlib import Path

import click

from dray.answers.one_line import one_line
from dray.cli.cluster import Cluster, Where, ask, located


@click.command()
@click.option(
    "--output", "-o", "target", type=click.Path(path_type=Path), required=True, metavar="FILE", help="File to write."
)
@located
def snapshot(target: Path, kubeconfig: Path | None, context: str, namespace: str) -> None:
    """Save everything that the scheduler reads from a cluster to FILE.

    `dray explain`, `plan`, `allocate`, `devices`, `topology` and `queue` read the file with --snapshot, on any machine,
    and answer as they would have on the cluster at that time. Any cluster will do, also one without dray.

    The file has nodes, devices, claims, pods, queues and groups, with the fields that the scheduler and explanations
    read. It has no Secrets, ConfigMaps, environment variables, commands, arguments, logs, or annotations of other
    programs. Labels, names and images are in it.

    \b
    Examples:
      dray snapshot -o monday.snapshot
      dray snapshot -o production.snapshot --context production
      dray explain pod/training --snapshot monday.snapshot

    Exit status: 0 written, 1 the server refused, 2 the server cannot be reached, or the file cannot be written.
    """

    async def work(cluster: Cluster) -> int:
        return await _take(cluster, target)

    ask(Where(kubeconfig, context, namespace), work)


async def _take(cluster: Cluster, target: Path) -> int:
    from dray.snapshot.files import SnapshotError, write
    from dray.snapshot.taking import take

    taken = await take(cluster.client, cluster.now(), cluster.namespace)
    try:
        size = write(taken, target)
    except SnapshotError as error:
        click.echo(one_line(f"error: {error}"), err=True)
        return 2
    for kind in taken.header.kinds:
        if kind.refusal is not None:
            click.echo(one_line(f"left out: {kind.plural}: {kind.refusal.message}"), err=True)
    if not taken.header.consistent:
        click.echo("note: the lists are of slightly different moments: the server no longer had the first", err=True)
    counts = {kind: len(objects) for (_, kind), objects in taken.objects.items()}
    main = ", ".join(f"{counts.get(kind, 0)} {plural}" for kind, plural in _COUNTED)
    click.echo(f"wrote {target} ({-(-size // 1024)} KiB): {main}")
    return 0


_COUNTED = (("Node", "nodes"), ("ResourceSlice", "resourceslices"), ("ResourceClaim", "claims"), ("Pod", "pods"))
