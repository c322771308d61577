"""`queue`: queues with quota and usage, and for one queue the running and waiting pods with reasons."""

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
# Events about queues that a scheduler ignores begin with these texts.
_IGNORED_QUEUE_EVENTS: Final = ("quota is ", "both enforce the quota ")


@dataclass(frozen=True, slots=True)
class QueueTree:
    """The queues of a cluster as trees, or one queue with details."""

    queues: Sequence[QueueView]
    """The topmost queues and cohorts; if a name was given, all queues of that name."""
    details: Sequence[str]
    """Lines about resources, loans, running pods and waiting pods; empty if no name was given."""
    notes: Sequence[str]

    @property
    def document(self) -> Object:
        """The document that `dray queue -o json` prints."""
        return {"queues": [row(view) for view in self.queues], "notes": list(self.notes)}

    @property
    def text(self) -> str:
        shown = (*tree_lines(self.queues), *map(one_line, self.details))
        return "".join(f"{line}\n" for line in (*shown, *(one_line(f"note: {note}") for note in self.notes)))


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
    """The queues of a cluster, and a scheduler that is filled with its objects."""

    found: Listed
    scheduler: Scheduler
    forest: list[QueueView]
    notes: Sequence[str]

    def waits(self, shown: Iterable[QueueView]) -> Iterator[Waits]:
        """Yields the pods and groups that wait in these queues, in the order in which they are tried."""
        for unit in _units(shown):
            said = _last_message(unit[0].pod)
            # If Kueue or KAI itself enforces the quota, it may have other reasons.
            why = said if self.found.left or not said else _current_reason(self.scheduler, unit, said)
            yield Waits(_title(unit), why or "not tried yet", [waiter.pod for waiter in unit])


async def read_queues(source: Source, tell: Tell) -> ReadQueues:
    """Lists a cluster and fills a scheduler with its queues and pods."""
    found = await listed(source.client, with_left=True)
    objects = ListedCluster(found, "default", KUBERNETES, source.now(), (), tell)
    scheduler = objects.scheduler(Options().name, adopting=True)
    notes = _notes(found)
    notes += [message for message in await _ignored_queue_messages(source) if not message.startswith(tuple(notes))]
    return ReadQueues(found, scheduler, views(scheduler), notes)


async def find_queues(source: Source, name: str, tell: Tell) -> QueueTree:
    """Returns all queues, or the queues of this name with details. Raises NotThere if there are none."""
    queues = await read_queues(source, tell)
    found, forest, notes = queues.found, queues.forest, queues.notes
    shown = find(forest, name) if name else forest
    if not shown:
        known = [view.name for top in forest for view in top.all()]
        raise NotThere([*_not_found_lines(found, name, known), *(f"note: {note}" for note in notes)])
    details = list(_details(queues, shown, source.now())) if name else []
    return QueueTree(shown, details, [*unread_notes(found), *notes])


def _not_found_lines(found: Listed, name: str, known: list[str]) -> list[str]:
    """Returns the lines of an error: the queue does not exist, or the user may not read queues."""
    unread = _unread(found)
    # The name may be the name of a cohort. A cluster that has only cohorts has no queues.
    deciding = {*QUEUES, "Cohort"} if name else {*QUEUES}
    if not deciding.isdisjoint(unread):
        question = f"whether queue {name} exists" if name else "whether this cluster has queues"
        return cannot_tell(question, unread)
    return [f"queue {name} not found; {suggestion(name, known)}" if name else "this cluster has no queues"]


def _unread(found: Listed) -> dict[str, str]:
    return {kind: said for kind, said in found.unread.items() if kind in QUEUE_KINDS}


def unread_notes(found: Listed) -> list[str]:
    """Returns messages about kinds of queues that the user may not read, and the remedy."""
    unread = list(_unread(found).values())
    return [*unread, REMEDY] if unread else []


def _details(queues: ReadQueues, shown: list[QueueView], now: float) -> Iterator[str]:
    yield from detail_lines(shown, text_of(now))
    number = len(_units(shown))
    if number:
        yield ""
    for place, unit in enumerate(islice(queues.waits(shown), _MOST_SHOWN)):
        yield f"{'next: ' if not place else ''}{unit.title}: {unit.why}"
    if number > _MOST_SHOWN:
        yield f"and {number - _MOST_SHOWN} more"


def _notes(found: Listed) -> list[str]:
    """Returns the reasons why dray does not enforce the quota, and doubts about that."""
    left = dict.fromkeys(why for kind, why in found.left.items() if kind in QUEUE_KINDS)
    return [*left, *found.doubts]


async def _ignored_queue_messages(cluster: Source) -> list[str]:
    """Returns messages of schedulers about queues that they ignore; empty if events may not be read."""
    from dray.api.catalogue import built_in
    from dray.client.errors import ApiError
    from dray.client.interface import Selection

    selection = Selection(fields=f"reason={REASON}")
    try:
        events = await cluster.client.list_all(built_in("v1", "Event"), namespace="default", selection=selection)
    except ApiError:
        return []
    said: dict[str, str] = {}
    for event in events.get("items") or ():
        message = text(event.get("message"))
        if mapping(event.get("involvedObject")).get("kind") in QUEUES and message.startswith(_IGNORED_QUEUE_EVENTS):
            said[message] = max(said.get(message, ""), text(event.get("lastTimestamp")))
    return [f"{message} (reported by a scheduler at {at})" for message, at in said.items()]


def _units(shown: Iterable[QueueView]) -> list[list[Waiter]]:
    units: dict[object, list[Waiter]] = {}
    for waiter in (waiter for top in shown for view in top.all() for waiter in view.waiting):
        units.setdefault(waiter.group or waiter.pod.uid, []).append(waiter)
    return list(units.values())


def _title(unit: list[Waiter]) -> str:
    group = unit[0].group
    if group is None:
        return f"pod {'/'.join(unit[0].pod.key)}"
    return f"group {group.title} ({len(unit)} pods)"


def _current_reason(scheduler: Scheduler, unit: list[Waiter], said: str) -> str:
    """Returns why the queue does not admit the pods now; if it admits them, the last message of the scheduler."""
    groups, key = scheduler.state.groups, unit[0].group
    group = groups.forest.get(key) if key is not None else None
    need = groups.need(group) if isinstance(group, Group) else 1
    answer = QueueExplainer(scheduler).answer([waiter.pod for waiter in unit[:need]])
    if answer is None or (answer.problem is None and answer.excess is None):
        return said
    if answer.problem is not None:
        return cause_text(answer)
    # `dray explain` says what the nearest node lacks.
    return f"{said.partition('. ')[0].removesuffix('.')}; {queue_text(answer)}"


def _last_message(pod: Pod) -> str:
    """Returns the last message of the scheduler about the pod; empty if it has not tried the pod."""
    return str((condition_of(pod.document, "PodScheduled") or {}).get("message") or "")
