"""`dray queue`: the tree of queues with quota and use, and of one queue what runs, what waits in order, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from dray.allocation import KUBERNETES
from dray.api.objects import condition_of, mapping, text
from dray.api.suggestions import suggestion
from dray.api.times import text_of
from dray.cli.cluster import Cluster, Where, ask, sourced
from dray.cli.live import World
from dray.cli.output_formats import output_option, structured
from dray.cli.queue_explainer import QueueExplainer
from dray.cli.queue_tables import detail_lines, tree_lines
from dray.cli.queue_texts import cause_text, queue_text
from dray.cli.queue_view import QueueView, Waiter, find, row, views
from dray.cli.reports import one_line
from dray.cli.unread_kinds import REMEDY, cannot_tell
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Options, Scheduler
from dray.scheduling_loop.optional_kinds import QUEUE_KINDS, QUEUES
from dray.scheduling_loop.queues_left import REASON
from dray.snapshot.listing import Listed, listed

_MOST_SHOWN: Final = 20
# How events about queues begin that a scheduler does not act on.
_LEFT: Final = ("quota is ", "both enforce the quota ")


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
        found = await listed(cluster.client, with_left=True)
        scheduler = World(found, "default", KUBERNETES, cluster.now()).scheduler(Options().name, adopting=True)
        forest = views(scheduler)
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
        for line in tree_lines(shown):
            click.echo(line)
        for line in _details(found, scheduler, shown, cluster.now()) if name else ():
            click.echo(one_line(line))
        for line in notes:
            click.echo(one_line(f"note: {line}"))
        return 0

    ask(Where(kubeconfig, context, "", snapshot), work)


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


def _details(found: Listed, scheduler: Scheduler, shown: list[QueueView], now: float) -> Iterator[str]:
    def explain(unit: list[Waiter], said: str) -> str:
        # If Kueue or KAI itself enforces the quota, it may have other reasons.
        return said if found.left else _current_reason(scheduler, unit, said)

    yield from detail_lines(shown, text_of(now))
    yield from _waiting_lines(shown, explain)


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


def _waiting_lines(shown: list[QueueView], explain: Callable[[list[Waiter], str], str]) -> Iterator[str]:
    units: dict[object, list[Waiter]] = {}
    for each in (waiter for top in shown for view in top.all() for waiter in view.waiting):
        units.setdefault(each.group or each.pod.uid, []).append(each)
    if units:
        yield ""
    for number, unit in enumerate(list(units.values())[:_MOST_SHOWN]):
        said = _last_message(unit[0].pod)
        why = explain(unit, said) if said else "not tried yet"
        yield f"{'next: ' if not number else ''}{_title(unit)}: {why}"
    if len(units) > _MOST_SHOWN:
        yield f"and {len(units) - _MOST_SHOWN} more"


def _title(unit: list[Waiter]) -> str:
    group = unit[0].group
    if group is None:
        return f"pod {'/'.join(unit[0].pod.key)}"
    return f"group {group.title} ({len(unit)} pods)"


def _current_reason(scheduler: Scheduler, unit: list[Waiter], said: str) -> str:
    """Returns why the queue does not admit the pods now, with who has the quota; if it would, what was said last."""
    groups, key = scheduler.state.groups, unit[0].group
    group = groups.forest.get(key) if key is not None else None
    need = groups.need(group) if isinstance(group, Group) else 1
    answer = QueueExplainer(scheduler).answer([each.pod for each in unit[:need]])
    if answer is None or (answer.problem is None and answer.excess is None):
        return said
    if answer.problem is not None:
        return cause_text(answer)
    # What the nearest node lacks is told by `dray explain`.
    return f"{said.partition('. ')[0].removesuffix('.')}; {queue_text(answer)}"


def _last_message(pod: Pod) -> str:
    """Returns what the scheduler of the pod said last; empty if it has not tried the pod."""
    return str((condition_of(pod.document, "PodScheduled") or {}).get("message") or "")
