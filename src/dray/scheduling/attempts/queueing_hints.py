"""QueueingHints: retries unschedulable pods after a change of something that the answer of a plugin depends on.

Pods that wait for the same are checked once, by their entry. The filters whose answers are kept run again on nodes that
changed. If such a node is feasible now, or pods on it could be preempted, the first pod of the entry is tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from dray.allocation import Work
from dray.scheduling.core.cycle import Cycle, PodClaims
from dray.scheduling.core.feasible_nodes import Signature
from dray.scheduling.core.framework import Framework
from dray.scheduling.core.nominations import Nominations
from dray.scheduling.core.state import State
from dray.scheduling.eviction.preemption import Preemptor
from dray.scheduling.model.node import Node
from dray.scheduling.model.pod import Pod
from dray.scheduling.model.status import UNSURE, Status
from dray.scheduling.plugin import Plugin
from dray.scheduling.waiting.queue import Queue
from dray.scheduling.waiting.queued_pods import QueuedPod, Seen, SubQueue, WaitEntry


class _Change(NamedTuple):
    """The changes that an entry has not seen."""

    nodes: set[int] | None
    """The numbers of the nodes where something became free or possible; None: any node."""
    pods: bool = False
    """Whether pods were added to nodes or removed from them."""
    labels: bool = False
    """Whether nodes were created or deleted, or their labels changed."""
    kept: int | None = None
    """The lowest priority of pods with a nomination on one of the nodes."""
    bound: bool = False
    """Whether a pod was bound."""

    @property
    def is_wide(self) -> bool:
        """Whether pods that depend on the whole cluster may be helped."""
        return self.pods or self.labels

    def concerns(self, entry: WaitEntry) -> bool:
        """Whether the change may concern pods of the entry at all; False for most pods that wait for quota."""
        wait = entry.wait
        if wait.nodes is None or wait.cluster_wide or self.labels or self.nodes is None or self.kept is not None:
            return True
        return self.lets_evict(entry) or not wait.nodes.isdisjoint(self.nodes)

    def lets_evict(self, entry: WaitEntry) -> bool:
        """Whether pods may be evicted for the entry that were being bound before."""
        return self.bound and entry.binding


class _Changes:
    """The changes since entries were last moved. Entries that were tried meanwhile have seen a part of them."""

    def __init__(self, state: State, nominations: Nominations, seen: Seen, *, bound: bool) -> None:
        self._state = state
        self._nominations = nominations
        self._seen = seen
        self._bound = bound
        self.all = self._since(seen)
        self._known: dict[Seen, _Change] = {}

    def unknown_to(self, entry: WaitEntry) -> _Change:
        seen = Seen(max(self._seen.helped, entry.seen.helped), max(self._seen.pods, entry.seen.pods), self._seen.nodes)
        change = self._known.get(seen)
        if change is None:
            change = self._known[seen] = self._since(seen)
        return change

    def _since(self, seen: Seen) -> _Change:
        state, nodes = self._state, self._state.helped.since(seen.helped)
        pods, labels = state.pods_revision != seen.pods, state.nodes_revision != seen.nodes
        return _Change(nodes, pods, labels, self._kept(nodes), self._bound)

    def _kept(self, changed: set[int] | None) -> int | None:
        """Returns the lowest priority of pods with a nomination on the nodes that changed; None if there are none."""
        nodes = self._state.nodes
        found = [
            priority
            for name, priority in (self._nominations.lowest().items() if changed and self._nominations else ())
            if changed and (node := nodes.get(name)) is not None and node.number in changed
        ]
        return min(found, default=None)


class _KeptAnswers:
    """Answers of the quick filters by signature and number of the node, until a node changes.

    Pods of many queues often have one signature: 3,000 pods in 30 queues take 27 million function calls instead of 38.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._position = -1
        self._known: dict[Signature, dict[int, Status | None]] = {}

    def of(self, signature: Signature) -> dict[int, Status | None]:
        """Returns the answers that are known; the caller adds to them. UNSURE stands for a node without an answer."""
        if self._position != (position := self._state.touched.end):
            self._position = position
            self._known.clear()
        return self._known.setdefault(signature, {})


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
        self._answers = _KeptAnswers(state)
        self._seen = Seen()
        self._in_turn: dict[Hashable, tuple[WaitEntry, set[int] | None]] = {}
        """Entries of queues that take turns, by key, with the changed nodes that may help them (None: any node)."""
        self._helped_by: dict[Hashable, set[int] | None] = {}
        """The changed nodes of the entries of `_in_turn` that were tried, by key."""
        self._trying: WaitEntry | None = None
        """The entry of `_in_turn` that is being tried."""
        self._pod_bound = False
        """Whether a pod was bound since entries were last moved."""

    def note_bound(self) -> None:
        """Notes that a pod was bound since entries were last moved."""
        self._pod_bound = True

    def move(self, now: float, work: Work) -> None:
        """Moves the entries to the active queue that a change since the last time may help."""
        self._move(now, work)
        if self._in_turn or self._queue.entries.turned:
            self._take_turns(self._queue.entries.pop_turned(), now, work)

    def _take_turns(self, turned: Iterable[WaitEntry], now: float, work: Work) -> None:
        """Tries the entries of queues that take turns one after the other, as long as the changed nodes may help
        them."""
        for entry in turned:
            self._in_turn.setdefault(entry.wait.key, (entry, self._helped_by.get(entry.wait.key)))
        if self._trying is not None and self._trying.trying is not None:
            return
        self._in_turn = {
            key: (entry, changed)
            for key, (entry, changed) in self._in_turn.items()
            if entry.members and self._may_help(entry, _Change(changed), now, work)
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
        before, seen, bound = self._seen, self._now_seen(), self._pod_bound
        if seen == before and not bound:
            return
        self._seen, self._pod_bound = seen, False
        if self._nominations:
            self._move_nominated(before.helped, now)
        if not self._queue.entries:
            return
        changes = _Changes(state, self._nominations, before, bound=bound)
        for entry in self._queue.entries:
            if entry.trying is not None:
                continue
            # Most entries were not tried since, and have seen nothing of it.
            change = changes.all if entry.seen <= before else changes.unknown_to(entry)
            if not change.concerns(entry):
                continue
            try:
                helps, ahead = self._judge(entry, change, now, work)
            except Exception as error:
                # The attempt reports the error.
                state.report("asking whether a change helps unschedulable pods", error)
                helps, ahead = True, False
            if helps:
                self._wake(entry, change, now, ahead=ahead)

    def _judge(self, entry: WaitEntry, change: _Change, now: float, work: Work) -> tuple[bool, bool]:
        """Returns whether the change may help the entry, and whether the entry may be tried before the end of its
        backoff."""
        helps = (change.bound and change.lets_evict(entry)) or self._may_help(entry, change, now, work)
        ahead = helps and now < entry.not_before and bool(change.nodes)
        if ahead and change.nodes and self._fits(entry, change.nodes, now, work):
            return True, True
        if change.kept is not None and (first := entry.first()) is not None and first.pod.priority > change.kept:
            # Nominations of pods of lower priority do not count for the pod.
            return True, True
        return helps, False

    def _wake(self, entry: WaitEntry, change: _Change, now: float, *, ahead: bool) -> None:
        """Tries the first pod of the entry, or lets it wait for its turn."""
        first, key = entry.first(), entry.wait.key
        if first is not None and first.turn is not None and change.nodes is not None and not change.lets_evict(entry):
            if entry.wait.cluster_wide and change.is_wide:
                # A change outside of the changed nodes may help the entry.
                self._queue.entries.move_to_active(entry, now)
            known = self._in_turn.get(key, (entry, set()))[1]
            self._in_turn[key] = entry, known | change.nodes if known is not None else None
            return
        if ahead:
            self._queue.entries.let_ahead(entry)
        self._queue.entries.move_to_active(entry, now)

    def attempted(self, entry: WaitEntry) -> None:
        """Notes that a pod of the entry was tried. Changes that the attempt caused do not retry the pod, which would
        never end."""
        self._queue.entries.note_seen(entry, self._now_seen())

    def _now_seen(self) -> Seen:
        state = self._state
        return Seen(state.helped.end, state.pods_revision, state.nodes_revision)

    def _move_nominated(self, since: int, now: float) -> None:
        """Retries pods with nominations on nodes that changed: the hints of other pods count these nodes as in use."""
        everywhere = self._state.helped.since(since) is None
        for uid in self._nominations.to_retry(since):
            queued = self._queue.get(uid)
            if queued is None or queued.subqueue is not SubQueue.UNSCHEDULABLE:
                continue
            if everywhere or not self._state.queues.reservations.awaits_others(uid):
                self._queue.activate(queued, now)

    def _may_help(self, entry: WaitEntry, change: _Change, now: float, work: Work) -> bool:
        wait = entry.wait
        if change.nodes is None or (wait.cluster_wide and change.is_wide):
            return True
        if wait.nodes is not None:
            # The set of nodes depends on the nodes that exist and their labels.
            return change.labels or not wait.nodes.isdisjoint(change.nodes)
        if wait.signature is None:
            return bool(change.nodes)
        return self._fits(entry, change.nodes, now, work, preempting=True)

    def _fits(self, entry: WaitEntry, changed: set[int], now: float, work: Work, *, preempting: bool = False) -> bool:
        """Whether a pod of the entry seems to fit on one of the nodes that changed. With `preempting`, also whether it
        might fit if pods of lower priority were preempted. This is a cheap check."""
        first = entry.first()
        there = self._there(changed)
        signature = entry.wait.signature
        if signature is None or first is None or not there:
            return False
        known = self._answers.of(signature)
        if any(known.get(node.number, UNSURE) is None for node in there):
            return True
        cycle = Cycle(first.pod, now, work, PodClaims(demand=signature.demand))
        if self._framework.prepare(cycle) is not None:
            # The answer of the prefilter changed.
            return True
        may_preempt = preempting and self._may_preempt(first)
        awaits_binding = False
        filters: list[Plugin] | None = None
        for node in there:
            status = known.get(node.number, UNSURE)
            if status is UNSURE:
                filters = self._framework.kept_filters(cycle) if filters is None else filters
                status = known[node.number] = self._framework.quick_filter(filters, cycle, node)
            if status is None or status is UNSURE:
                return True
            if may_preempt:
                help_ = self._preemptor.may_help(cycle, node, status)
                if help_.helps:
                    return True
                awaits_binding = awaits_binding or help_.awaits_binding
        # Pods that were placed there meanwhile may be evicted once they are bound.
        if awaits_binding:
            entry.await_binding(binding=True)
        return False

    def _may_preempt(self, queued: QueuedPod) -> bool:
        return queued.pod.preempts and not (queued.turn is not None and self._state.queues.cannot_evict(queued.pod))

    def _there(self, changed: set[int]) -> list[Node]:
        numbered = self._state.numbered
        return [node for number in changed if (node := numbered[number]) is not None and node.document]
