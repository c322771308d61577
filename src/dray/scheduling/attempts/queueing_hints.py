"""Queueing hints: which unschedulable pods are tried again, since something changed that a plugin's answer depends on.

Pods that wait for the same are looked at once, by their entry. A node that changed is asked again by the filters whose
answers are kept; where they let it pass, or pods on it could be preempted, the first pod of the entry is tried.
`Waiters` has the pods that wait for a single object of any kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from dray.allocation import Work
from dray.scheduling.core.cycle import Cycle, PodClaims
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.nominations import Nominations
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.reasons import ObjectRef
from dray.scheduling.model.status import UNSURE
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import SubQueue, WaitEntry


class Waiters:
    """Pods by their uids."""

    def __init__(self) -> None:
        self._pods: dict[ObjectRef, set[str]] = {}
        self._objects: dict[str, tuple[ObjectRef, ...]] = {}

    def objects(self, uid: str) -> tuple[ObjectRef, ...]:
        return self._objects.get(uid, ())

    def pods(self, waited_for: ObjectRef) -> tuple[str, ...]:
        return tuple(self._pods.get(waited_for, ()))

    def set(self, uid: str, objects: tuple[ObjectRef, ...]) -> None:
        """It waits for these and no others."""
        if self.objects(uid) == objects:
            return
        self.remove(uid)
        if objects:
            self._objects[uid] = objects
        for each in objects:
            self._pods.setdefault(each, set()).add(uid)

    def add(self, uid: str, objects: Iterable[ObjectRef]) -> None:
        known = self.objects(uid)
        self.set(uid, (*known, *(each for each in objects if each not in known)))

    def remove(self, uid: str) -> None:
        for each in self._objects.pop(uid, ()):
            uids = self._pods.get(each)
            if uids is not None:
                uids.discard(uid)
                if not uids:
                    del self._pods[each]


class QueueingHints:
    def __init__(
        self,
        state: State,
        queue: Queue,
        framework: Framework,
        preemptor: Preemptor,
        nominations: Nominations,
    ) -> None:
        self._state = state
        self._queue = queue
        self._framework = framework
        self._preemptor = preemptor
        self._nominations = nominations
        self._seen_helped = 0
        self._seen_pods = 0
        self._seen_nodes = 0
        self._in_turn: dict[Hashable, tuple[WaitEntry, set[int] | None]] = {}
        """Entries that a change may help, whose queues take turns: by key, with the changed nodes; None for any."""
        self._helped_by: dict[Hashable, set[int] | None] = {}
        """By key of those that were tried of them."""
        self._trying: WaitEntry | None = None
        self.pod_bound = False
        """Whether a pod was bound since entries were last moved."""

    def move(self, now: float, work: Work) -> None:
        """Moves the entries to the active queue that a change since the last time may help."""
        self._move(now, work)
        turned = self._queue.entries.pop_turned()
        if self._in_turn or turned:
            self._take_turns(turned, now, work)

    def _take_turns(self, turned: Iterable[WaitEntry], now: float, work: Work) -> None:
        """Of entries whose queues take turns one is tried after the other, for as long as what changed may help."""
        for entry in turned:
            self._in_turn.setdefault(entry.wait.key, (entry, self._helped_by.get(entry.wait.key)))
        if self._trying is not None and self._trying.trying is not None:
            return
        self._in_turn = {
            key: (entry, changed)
            for key, (entry, changed) in self._in_turn.items()
            if entry.members and self._may_help(entry, changed, now, work, pods=False, nodes=False)
        }
        if self._in_turn:
            entry, changed = self._in_turn.pop(self._first_in_turn())
            self._trying = entry
            self._helped_by[entry.wait.key] = changed
            self._queue.entries.try_now(entry)
        else:
            self._trying = None
            self._helped_by.clear()

    def _first_in_turn(self) -> Hashable:
        keys: dict[str, Hashable] = {}
        heads: dict[str, Pod] = {}
        turns = None
        for key, (entry, _) in list(self._in_turn.items()):
            first = entry.first()
            if first is None or first.turn is None:
                return key
            turns = turns or first.turn.turns
            lane = first.turn.lane
            if first.turn.turns is turns and (lane not in heads or first.pod.priority > heads[lane].priority):
                keys[lane], heads[lane] = key, first.pod
        assert turns is not None
        return keys[turns.choose(heads)]

    def _move(self, now: float, work: Work) -> None:
        state = self._state
        seen = (self._seen_helped, self._seen_pods, self._seen_nodes)
        if (state.helped.end, state.pods_revision, state.nodes_revision) == seen and not self.pod_bound:
            return
        since = self._seen_helped
        changed = state.helped.since(since)
        pods = state.pods_revision != self._seen_pods
        nodes = state.nodes_revision != self._seen_nodes
        bound, self.pod_bound = self.pod_bound, False
        self._seen_helped, self._seen_pods = state.helped.end, state.pods_revision
        self._seen_nodes = state.nodes_revision
        kept = None
        if self._nominations:
            self._move_nominated(since, changed is None, now)
            kept = self._kept(changed)
        for entry in self._queue.entries:
            if entry.trying is not None:
                continue
            removable = bound and entry.wait.binding
            try:
                helps = removable or self._may_help(entry, changed, now, work, pods, nodes)
                ahead = helps and now < entry.not_before and changed and self._fits(entry, changed, now, work)
                if (
                    not ahead
                    and kept is not None
                    and (first := entry.first()) is not None
                    and first.pod.priority > kept
                ):
                    # What is kept for the less urgent looks taken, and is not for it.
                    helps = ahead = True
            except Exception as error:
                # Trying it tells what is wrong with it.
                state.report("asking whether a change helps unschedulable pods", error)
                helps, ahead = True, False
            first = entry.first() if helps else None
            if first is not None and first.turn is not None and changed is not None and not removable:
                if entry.wait.cluster_wide and (pods or nodes):
                    # What helps it may be elsewhere than where its turn is looked for.
                    self._queue.entries.move_to_active(entry, now)
                known = self._in_turn.get(entry.wait.key, (entry, set()))[1]
                self._in_turn[entry.wait.key] = entry, known | changed if known is not None else None
                continue
            if ahead:
                self._queue.entries.let_ahead(entry)
            if helps:
                self._queue.entries.move_to_active(entry, now)

    def _move_nominated(self, since: int, everywhere: bool, now: float) -> None:
        """To others nominated nodes are taken; only those they are kept for can tell whether they are free."""
        for uid in self._nominations.to_retry(since):
            queued = self._queue.get(uid)
            if queued is None or queued.subqueue is not SubQueue.UNSCHEDULABLE:
                continue
            if everywhere or not self._state.queues.awaits_quota(uid):
                self._queue.activate(queued, now)

    def _kept(self, changed: set[int] | None) -> int | None:
        """The lowest priority of those that have a place kept on the nodes that changed."""
        nodes = self._state.nodes
        found = [
            priority
            for name, priority in self._nominations.lowest().items()
            if changed and (node := nodes.get(name)) is not None and node.number in changed
        ]
        return min(found, default=None)

    def _may_help(
        self, entry: WaitEntry, changed: set[int] | None, now: float, work: Work, pods: bool, nodes: bool
    ) -> bool:
        if changed is None or (entry.wait.cluster_wide and (pods or nodes)):
            return True
        if entry.wait.nodes is not None:
            # Which nodes those are depends on which there are.
            return nodes or not entry.wait.nodes.isdisjoint(changed)
        if entry.wait.signature is None:
            return bool(changed)
        return self._fits(entry, changed, now, work, preempting=True)

    def _fits(self, entry: WaitEntry, changed: set[int], now: float, work: Work, *, preempting: bool = False) -> bool:
        """Whether a pod of the entry fits on one of the nodes that changed, as far as can be told cheaply; or could, if
        pods of lower priority were preempted."""
        first = entry.first()
        there = self._there(changed)
        if entry.wait.signature is None or first is None or not there:
            return False
        cycle = Cycle(first.pod, now, work, PodClaims(demand=entry.wait.signature.demand))
        if self._framework.prepare(cycle) is not None:
            # It says something else than before.
            return True
        filters = self._framework.kept_filters(cycle)
        may_preempt = first.pod.preempts and not (first.turn is not None and self._state.queues.is_modest(first.pod))
        awaits_binding = False
        for node in there:
            status = self._framework.quick_filter(filters, cycle, node)
            if status is None or status is UNSURE:
                return True
            if preempting and may_preempt:
                help_ = self._preemptor.may_help(cycle, node, status)
                if help_.helps:
                    return True
                awaits_binding = awaits_binding or help_.awaits_binding
        # Those that came there meanwhile may be removed once they are bound.
        if awaits_binding:
            self._queue.entries.await_binding(entry, binding=True)
        return False

    def _there(self, changed: set[int]) -> list[Node]:
        numbered = self._state.numbered
        return [node for number in changed if (node := numbered[number]) is not None and node.document]
