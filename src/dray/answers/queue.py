"""`queue`: queues with quota and use, and of one queue what runs, what waits in order, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dray.allocation import KUBERNETES
from dray.answers.cluster import Cluster, Told
from dray.answers.errors import NotThere
from dray.answers.explaining.live import ListedCluster
from dray.answers.explaining.queue_explainer import QueueExplainer
from dray.answers.explaining.queue_texts import cause_text, queue_text
from dray.answers.explaining.unread_kinds import REMEDY, cannot_tell
from dray.answers.one_line import one_line
from dray.answers.source import Source, Tell
from dray.answers.views.queue_tables import detail_lines, tree_lines
from dray.answers.views.queue_view import QueueView, Waiter, find, row, views
from dray.api.objects import Object, condition_of, mapping, text
from dray.api.suggestions import suggestion
from dray.api.times import text_of
from dray.scheduling.model.group import Group
from dray.scheduling.model.pod import Pod
from dray.scheduling.scheduler import Options, Scheduler
from dray.scheduling_loop.optional_kinds import QUEUE_KINDS, QUEUES
from dray.scheduling_loop.queues_left import REASON
from dray.snapshot.listing import Listed, listed

_MOST_SHOWN: Final = 20
# How events about queues begin that a scheduler does not act on.
_LEFT: Final = ("quota is ", "both enforce the quota ")


@dataclass(frozen=True, slots=True)
class QueueTree:
    queues: Sequence[QueueView]
    """Queues and cohorts without any above them; with a name, those of that name."""
    details: Sequence[str]
    """With a name: resources, loans, running pods, and waiting ones with their reasons."""
    notes: Sequence[str]

    @property
    def document(self) -> Object:
        """What `dray queue -o json` prints."""
        return {"queues": [row(each) for each in self.queues], "notes": list(self.notes)}

    @property
    def text(self) -> str:
        shown = (*tree_lines(self.queues), *map(one_line, self.details))
        return "".join(f"{line}\n" for line in (*shown, *(one_line(f"note: {each}") for each in self.notes)))


def queue(name: str = "", cluster: Cluster | None = None) -> QueueTree:
    """Returns all queues, or one queue or cohort with details.

    Raises NotThere if there is no such queue, and ClientError if the server does not answer.
    """
    told = Told()
    answer = (cluster or Cluster.from_kubeconfig()).ask(lambda source: find_queues(source, name, told.tell))
    return QueueTree(answer.queues, answer.details, (*answer.notes, *told.lines))


@dataclass(frozen=True, slots=True)
class Waits:
    """A pod or a group that waits in a queue, and why."""

    title: str
    why: str
    pods: Sequence[Pod]


@dataclass(frozen=True, slots=True)
class ReadQueues:
    """The queues of a cluster, and the scheduler's core that knows it."""

    found: Listed
    scheduler: Scheduler
    forest: list[QueueView]
    notes: Sequence[str]

    def waits(self, shown: Iterable[QueueView]) -> Iterator[Waits]:
        """Yields what waits in these queues in the order in which it is tried."""
        for unit in _units(shown):
            said = _last_message(unit[0].pod)
            # If Kueue or KAI itself enforces the quota, it may have other reasons.
            why = said if self.found.left or not said else _current_reason(self.scheduler, unit, said)
            yield Waits(_title(unit), why or "not tried yet", [each.pod for each in unit])


async def read_queues(source: Source, tell: Tell) -> ReadQueues:
    found = await listed(source.client, with_left=True)
    objects = ListedCluster(found, "default", KUBERNETES, source.now(), (), tell)
    scheduler = objects.scheduler(Options().name, adopting=True)
    notes = _notes(found)
    notes += [each for each in await _said_by_schedulers(source) if not each.startswith(tuple(notes))]
    return ReadQueues(found, scheduler, views(scheduler), notes)


async def find_queues(source: Source, name: str, tell: Tell) -> QueueTree:
    queues = await read_queues(source, tell)
    found, forest, notes = queues.found, queues.forest, queues.notes
    shown = find(forest, name) if name else forest
    if not shown:
        known = [each.name for top in forest for each in top.all()]
        raise NotThere([*_missing(found, name, known), *(f"note: {each}" for each in notes)])
    details = list(_details(queues, shown, source.now())) if name else []
    return QueueTree(shown, details, [*unread_notes(found), *notes])


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


def unread_notes(found: Listed) -> list[str]:
    """Returns what the server said about each kind of queues that may not be read, and the remedy."""
    unread = list(_unread(found).values())
    return [*unread, REMEDY] if unread else []


def _details(queues: ReadQueues, shown: list[QueueView], now: float) -> Iterator[str]:
    yield from detail_lines(shown, text_of(now))
    number = len(_units(shown))
    if number:
        yield ""
    for place, each in enumerate(islice(queues.waits(shown), _MOST_SHOWN)):
        yield f"{'next: ' if not place else ''}{each.title}: {each.why}"
    if number > _MOST_SHOWN:
        yield f"and {number - _MOST_SHOWN} more"


def _notes(found: Listed) -> list[str]:
    """Returns the reasons why dray does not enforce the quota, and doubts about that."""
    left = dict.fromkeys(why for kind, why in found.left.items() if kind in QUEUE_KINDS)
    return [*left, *found.doubts]


async def _said_by_schedulers(cluster: Source) -> list[str]:
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


def _units(shown: Iterable[QueueView]) -> list[list[Waiter]]:
    units: dict[object, list[Waiter]] = {}
    for each in (waiter for top in shown for view in top.all() for waiter in view.waiting):
        units.setdefault(each.group or each.pod.uid, []).append(each)
    return list(units.values())


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
