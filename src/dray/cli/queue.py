"""`dray queue`: the queues of a cluster with their quota, what is used and left of it, and who waits, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from dray.allocation import KUBERNETES
from dray.api.objects import condition_of
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.device_facts import table
from dray.cli.live import World, listed
from dray.scheduling.front_ends.kueue import ClusterQueue
from dray.scheduling.model import Pod
from dray.scheduling.quota_tree import Asset
from dray.scheduling.scheduler import Options, Scheduler

_COLUMNS: Final = ("Queue", "Cohort", "Flavor", "Resource", "Quota", "Used", "Left", "Waiting")
_MOST_SHOWN: Final = 20


@click.command()
@click.argument("name", default="", metavar="[NAME]")
@reaching
def queue(name: str, kubeconfig: Path | None, context: str) -> None:
    """Show the queues of a cluster: quota, what is used and left, and how many pods wait.

    With NAME that ClusterQueue alone, and the pods that wait in it: who is next, and why not yet. What is left includes
    what can be borrowed.

    Exit status: 0 shown, 1 the server refused, 2 it cannot be asked.
    """

    async def work(cluster: Cluster) -> int:
        world = World(await listed(cluster), "default", KUBERNETES)
        scheduler = world.scheduler(Options().name)
        queues = [each for each in scheduler.state.queues.all() if name in ("", each.name)]
        if not queues:
            raise click.ClickException(
                f"there is no ClusterQueue {name}" if name else "there are no ClusterQueues here"
            )
        for line in table(_COLUMNS, [row for each in queues for row in _rows(scheduler, each)]):
            click.echo(line)
        for line in _waiting_lines(scheduler, queues[0]) if name else ():
            click.echo(line)
        return 0

    ask(Where(kubeconfig, context, ""), work)


def _rows(scheduler: Scheduler, queue: ClusterQueue) -> Iterator[tuple[str, ...]]:
    tree, waiting = scheduler.state.queues.tree, str(len(_waiting(scheduler, queue)))
    for asset, quota in queue.quotas.items():
        amounts = (quota.nominal, tree.used(queue.name, asset), max(0, tree.available(queue.name, asset)))
        texts = [_amount(asset, each) for each in amounts]
        yield queue.name, queue.cohort, asset.flavor, asset.resource, *texts, waiting


def _amount(asset: Asset, number: int) -> str:
    return f"{number / 1000:g}" if asset.resource == "cpu" else str(number)


def _waiting(scheduler: Scheduler, queue: ClusterQueue) -> list[Pod]:
    """In the order in which they are tried."""
    found = [each for each in scheduler.queue.all() if scheduler.state.queues.queue_of(each.pod) is queue]
    found.sort(key=lambda each: (-each.pod.priority, each.pod.created, each.pod.key))
    return [each.pod for each in found]


def _waiting_lines(scheduler: Scheduler, queue: ClusterQueue) -> Iterator[str]:
    waiting = _waiting(scheduler, queue)
    if waiting:
        yield ""
    for pod in waiting[:_MOST_SHOWN]:
        condition = condition_of(pod.document, "PodScheduled") or {}
        yield f"pod {'/'.join(pod.key)}: {condition.get('message') or 'not tried yet'}"
    if len(waiting) > _MOST_SHOWN:
        yield f"and {len(waiting) - _MOST_SHOWN} more"
