"""`dray queue`: the tree of queues with quota, what is used, fair share and left, and who waits, in order, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from dray.allocation import KUBERNETES
from dray.api.objects import condition_of, mapping, text
from dray.api.suggestions import suggestion
from dray.cli.cluster import Cluster, Where, ask, reaching
from dray.cli.device_facts import table
from dray.cli.listing import REMEDY, Listed, cannot_tell, listed
from dray.cli.live import World
from dray.cli.output_formats import output_option, structured
from dray.cli.queue_view import Amounts, QueueView, Waiter, find, row, views
from dray.cli.reports import one_line
from dray.scheduling.model.messages import amount_text
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.optional_kinds import QUEUE_KINDS, QUEUES
from dray.scheduling_loop.queues_left import REASON

_COLUMNS: Final = ("Queue", "Flavor", "Resource", "Quota", "Limit", "Used", "Share", "Left", "Waiting")
_MOST_SHOWN: Final = 20
# How events about queues begin that a scheduler does not act on.
_LEFT: Final = ("quota is ", "both enforce the quota ")


@click.command()
@click.argument("name", default="", metavar="[NAME]")
@output_option("table", "json", "yaml", "name")
@reaching
def queue(name: str, output: str, kubeconfig: Path | None, context: str) -> None:
    """Show queues as a tree: quota, limit, usage, what is left, and the number of pending pods.

    SHARE of a KAI queue is its fair share. SHARE of a Kueue queue is borrowed / lendable, divided by its weight. LEFT
    includes quota that can be borrowed.

    With NAME it shows that queue or cohort and everything below it, and lists the pending pods in order, each with its
    reason.

    \b
    Examples:
      dray queue
      dray queue team-a
      dray queue -o json

    Exit status: 0 printed, 1 the server refused or the queue does not exist, 2 the server cannot be reached.
    """

    async def work(cluster: Cluster) -> int:
        found = await listed(cluster, with_left=True)
        forest = views(World(found, "default", KUBERNETES).scheduler(Options().name, adopting=True))
        notes = _notes(found)
        notes += [each for each in await _said_by_schedulers(cluster) if not each.startswith(tuple(notes))]
        shown = find(forest, name) if name else forest
        if not shown:
            known = [each.name for top in forest for each in top.all()]
            lines = [*_missing(found, name, known), *(f"note: {each}" for each in notes)]
            raise click.ClickException("\n".join(map(one_line, lines)))
        if output == "name":
            click.echo("".join(f"{each.name}\n" for top in shown for each in top.all()), nl=False)
            return 0
        notes = [*_unread_notes(found), *notes]
        if output != "table":
            click.echo(structured({"queues": [row(each) for each in shown], "notes": notes}, output), nl=False)
            return 0
        for line in table(_COLUMNS, [line for each in shown for line in _lines(each, "", "")]):
            click.echo(line.rstrip())
        for line in _waiting_lines(shown) if name else ():
            click.echo(line)
        for line in notes:
            click.echo(one_line(f"note: {line}"))
        return 0

    ask(Where(kubeconfig, context, ""), work)


def _missing(found: Listed, name: str, known: list[str]) -> list[str]:
    """Returns the lines of an error: no such queue, or that this cannot be told without the right to read queues."""
    unread = _unread(found)
    # A name may be that of a cohort. Cohorts alone do not make a queue.
    deciding = {*QUEUES, "Cohort"} if name else {*QUEUES}
    if not deciding.isdisjoint(unread):
        question = f"whether queue {name} exists" if name else "whether this cluster has queues"
        return cannot_tell(question, unread)
    return [f"queue {name} not found; {suggestion(name, known)}" if name else "this cluster has no queues"]


def _unread(found: Listed) -> dict[str, str]:
    return {kind: said for kind, said in found.unread.items() if kind in QUEUE_KINDS}


def _unread_notes(found: Listed) -> list[str]:
    """Returns what the server said about each kind of queues that may not be read, and the remedy."""
    unread = list(_unread(found).values())
    return [*unread, REMEDY] if unread else []


def _notes(found: Listed) -> list[str]:
    """Returns the reasons why dray does not enforce the quota, and doubts about that."""
    left = dict.fromkeys(why for kind, why in found.left.items() if kind in QUEUE_KINDS)
    return [*left, *found.doubts]


async def _said_by_schedulers(cluster: Cluster) -> list[str]:
    """Returns the events of schedulers about queues that they ignore; an empty list if events may not be read."""
    from dray.api.catalogue import built_in
    from dray.client.errors import ApiError
    from dray.client.interface import Selection

    selection = Selection(fields=f"reason={REASON}")
    try:
        events = await cluster.client.list_all(built_in("v1", "Event"), namespace="default", selection=selection)
    except ApiError:
        return []
    said: dict[str, str] = {}
    for each in events.get("items") or ():
        message = text(each.get("message"))
        if mapping(each.get("involvedObject")).get("kind") in QUEUES and message.startswith(_LEFT):
            said[message] = max(said.get(message, ""), text(each.get("lastTimestamp")))
    return [f"{message} (reported by a scheduler at {at})" for message, at in said.items()]


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
    if number is None:
        return "-"
    written = amount_text(resource, number)
    if "e+" not in written:
        return written
    # Quota is often set to more than anybody can use, as in 1M cores or 1Pi of memory.
    return f"{number / 1000:.15g}" if resource == "cpu" else f"{number / (1 << 50):.4g}Pi"


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
