"""`dray defrag`: which pods to move so that a waiting group or pod fits, and with `--apply` moving them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from dray.allocation import KUBERNETES
from dray.answers.explaining.live import ListedCluster
from dray.cli.cluster import Cluster, Where, ask, located
from dray.cli.moving import Mover
from dray.cli.output_formats import output_option, structured
from dray.cli.plugins import plugin_option
from dray.cli.warnings import warn
from dray.scheduling.explain.consolidation import Consolidation, Consolidator, Waiting
from dray.snapshot.listing import listed

_MOST_TRIED: Final = 50


@click.command()
@click.argument("target", default="", metavar="[POD|GROUP]")
@click.option(
    "--plan",
    "mode",
    flag_value="plan",
    default="plan",
    help="Print the pods to move, and evict nothing. This is the default.",
)
@click.option("--apply", "mode", flag_value="apply", help="Evict the pods, after asking.")
@click.option("--yes", "-y", is_flag=True, help="Evict without asking.")
@output_option("text", "json", "yaml")
@click.option(
    "--scheduler-name",
    default="default-scheduler",
    show_default=True,
    metavar="NAME",
    help="Scheduler of the pending pods.",
)
@plugin_option
@located
def defrag(
    target: str,
    mode: str,
    yes: bool,
    output: str,
    scheduler_name: str,
    plugins: tuple[str, ...],
    kubeconfig: Path | None,
    context: str,
    namespace: str,
) -> None:
    """Find the pods to move so that a pending pod or group of pods fits.

    Free devices are often scattered over nodes while a pending pod needs them on one. This finds the smallest set of
    pods to move. It moves only pods that a controller recreates, that have no higher priority, and that their
    PodDisruptionBudgets allow to evict; each must fit on another node. Groups that are evicted together move as one.
    Without a target, it takes the most urgent pending pod that can be helped.

    With --apply the pods are evicted. Before that, dray's scheduler reserves the place for the pending pod.

    \b
    Examples:
      dray defrag
      dray defrag podgroup/training -o json
      dray defrag training-0 --apply --yes

    Exit status: 0 it fits, or will fit after the moves; 1 it does not fit, or the pods were not moved; 2 the server
    cannot be reached, or no such pod or group is pending.
    """

    async def work(cluster: Cluster) -> int:
        found = await _consolidation(cluster, target, scheduler_name, plugins)
        if found is None:
            click.echo("no pod is pending" if not target else f"{target} is not pending", err=bool(target))
            return 2 if target else 0
        click.echo(f"{_text(found)}\n" if output == "text" else structured(_document(found), output), nl=False)
        if found.problem:
            return 1
        if mode == "plan" or not found.moves:
            return 0
        if not yes:
            click.confirm(f"Evict {_number(len(found.moves), 'pod')}?", abort=True, err=True)
        return await Mover(cluster, found).move()

    ask(Where(kubeconfig, context, namespace), work)


async def _consolidation(
    cluster: Cluster, target: str, scheduler_name: str, plugins: tuple[str, ...]
) -> Consolidation | None:
    objects = ListedCluster(await listed(cluster.client), cluster.namespace, KUBERNETES, cluster.now(), plugins, warn)
    consolidator = Consolidator(objects.scheduler(scheduler_name), cluster.now())
    waiting = [pod for pod in consolidator.waiting() if _is_meant(pod, target, cluster.namespace)]
    first: Consolidation | None = None
    for pod in waiting[:_MOST_TRIED]:
        found = consolidator.find(pod)
        if found.moves or target:
            return found
        first = first or found
    return first


def _is_meant(waiting: Waiting, target: str, namespace: str) -> bool:
    """By name, or as KIND/NAME."""
    kind, _, name = target.rpartition("/")
    key = waiting.group.key
    if not target:
        return True
    return name == key.name and namespace == key.namespace and (not kind or key.kind.lower().startswith(kind.lower()))


def _text(found: Consolidation) -> str:
    lines = [found.waiting.title]
    if found.problem:
        return f"{lines[0]} does not fit: {found.problem}"
    if not found.moves:
        lines[0] += " fits without moves; its scheduler has not tried it since, or does not run"
    else:
        lines[0] += f" fits after {_number(len(found.moves), 'move')}"
    lines += [f"  move pod {'/'.join(move.pod.key)} from {move.source} to {move.target}" for move in found.moves]
    for place in found.places:
        devices = f" with {', '.join(place.devices)}" if place.devices else ""
        lines.append(f"  then pod {'/'.join(place.pod.key)} goes to {place.node}{devices}")
    return "\n".join(lines)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _document(found: Consolidation) -> dict[str, Any]:
    key = found.waiting.group.key
    document: dict[str, Any] = {
        "waiting": {"kind": key.kind, "namespace": key.namespace, "name": key.name},
        "fits": not found.problem,
        "moves": [
            {"namespace": move.pod.key[0], "pod": move.pod.key[1], "from": move.source, "to": move.target}
            for move in found.moves
        ],
        "places": [
            {"namespace": place.pod.key[0], "pod": place.pod.key[1], "node": place.node, "devices": list(place.devices)}
            for place in found.places
        ],
    }
    if found.problem:
        document["problem"] = found.problem
    return document
