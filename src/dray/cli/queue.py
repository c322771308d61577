"""`dray queue`: the tree of queues with quota, what is used, fair share and left, and who waits, in order, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from dray.allocation import KUBERNETES
from dray.api.objects import condition_of
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.device_facts import table
from dray.cli.live import World, listed
from dray.cli.queue_view import Amounts, QueueView, Waiter, find, row, views
from dray.scheduling.messages import amount_text
from dray.scheduling.model import Pod
from dray.scheduling.scheduler import Options

_COLUMNS: Final = ("Queue", "Flavor", "Resource", "Quota", "Limit", "Used", "Share", "Left", "Waiting")
_MOST_SHOWN: Final = 20


@click.command()
@click.argument("name", default="", metavar="[NAME]")
@click.option("--output", "-o", type=click.Choice(["text", "json"]), default="text", show_default=True)
@reaching
def queue(name: str, output: str, kubeconfig: Path | None, context: str) -> None:
    """Show the queues of a cluster as a tree: quota, limit, what is used and left, and how many pods wait.

    SHARE is what a queue of KAI is entitled to; of one of Kueue it is how much of what could be lent it has borrowed,
    by its weight. LEFT includes what can be borrowed.

    With NAME that queue or cohort with what is below it, and who waits there: the first is next, and each with why not
    yet.

    Exit status: 0 shown, 1 the server refused or there is none of that name, 2 it cannot be asked.
    """

    async def work(cluster: Cluster) -> int:
        world = World(await listed(cluster), "default", KUBERNETES)
        forest = views(world.scheduler(Options().name))
        shown = find(forest, name) if name else forest
        if not shown:
            raise click.ClickException(f"there is no queue {name}" if name else "there are no queues here")
        if output == "json":
            click.echo(json.dumps({"queues": [row(each) for each in shown]}, indent=2))
            return 0
        for line in table(_COLUMNS, [line for each in shown for line in _lines(each, "", "")]):
            click.echo(line.rstrip())
        for line in _waiting_lines(shown) if name else ():
            click.echo(line)
        return 0

    ask(Where(kubeconfig, context, ""), work)


def _lines(view: QueueView, first: str, rest: str) -> Iterator[tuple[str, ...]]:
    """The queue and those below it, drawn as a tree; a queue has a line for each resource."""
    title = f"{first}{'cohort ' if view.kind == 'Cohort' else ''}{view.name}"
    waiting = str(view.number_waiting)
    for number, each in enumerate(view.amounts):
        drawn = title if not number else rest + ("│" if view.children else "")
        yield (drawn, *_texts(view, each), waiting if not number else "")
    if not view.amounts:
        yield (title, "", "", "", "", "", _share(view, None), "", waiting)
    for number, child in enumerate(view.children):
        last = number == len(view.children) - 1
        yield from _lines(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _texts(view: QueueView, amounts: Amounts) -> tuple[str, ...]:
    numbers = (amounts.quota, amounts.limit, amounts.used)
    quota, limit, used = (_amount(amounts.resource, each) for each in numbers)
    left = _amount(amounts.resource, amounts.left)
    return amounts.flavor, amounts.resource, quota, limit, used, _share(view, amounts), left


def _share(view: QueueView, amounts: Amounts | None) -> str:
    if view.borrowed is not None:
        return f"{view.borrowed / 1000:g}"
    return _amount(amounts.resource, amounts.share) if amounts is not None else ""


def _amount(resource: str, number: float | None) -> str:
    return "-" if number is None else amount_text(resource, number)


def _waiting_lines(shown: list[QueueView]) -> Iterator[str]:
    units: dict[object, list[Waiter]] = {}
    for each in (waiter for top in shown for view in top.all() for waiter in view.waiting):
        units.setdefault(each.group or each.pod.uid, []).append(each)
    if units:
        yield ""
    for number, unit in enumerate(list(units.values())[:_MOST_SHOWN]):
        yield f"{'next: ' if not number else ''}{_title(unit)}: {_why(unit[0].pod)}"
    if len(units) > _MOST_SHOWN:
        yield f"and {len(units) - _MOST_SHOWN} more"


def _title(unit: list[Waiter]) -> str:
    group = unit[0].group
    if group is None:
        return f"pod {'/'.join(unit[0].pod.key)}"
    return f"group {group.title} ({len(unit)} pods)"


def _why(pod: Pod) -> str:
    """What its scheduler said last."""
    condition = condition_of(pod.document, "PodScheduled") or {}
    return str(condition.get("message") or "not tried yet")
