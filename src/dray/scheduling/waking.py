"""Who of those that wait is tried again: those whom something that changed may help, and nobody else."""

from __future__ import annotations

from dray.scheduling.model import Node
from dray.scheduling.nominations import Nominations
from dray.scheduling.preemption import Preemptor
from dray.scheduling.queue import Group, Place, Queue
from dray.scheduling.standings import obstacles
from dray.scheduling.state import State


class Waker:
    def __init__(self, state: State, queue: Queue, preemptor: Preemptor, nominations: Nominations) -> None:
        self._state = state
        self._queue = queue
        self._preemptor = preemptor
        self._nominations = nominations
        self._seen_helped = 0
        self._seen_pods = 0
        self._seen_nodes = 0
        self.landed = False
        """Whether a pod was bound since groups were last woken."""

    def rouse(self, now: float) -> None:
        """Wakes the groups that a change since the last time may help."""
        state = self._state
        seen = (self._seen_helped, self._seen_pods, self._seen_nodes)
        if (state.helped.end, state.pods_revision, state.nodes_revision) == seen and not self.landed:
            return
        changed = state.helped.since(self._seen_helped)
        pods = state.pods_revision != self._seen_pods
        nodes = state.nodes_revision != self._seen_nodes
        landed, self.landed = self.landed, False
        self._seen_helped, self._seen_pods = state.helped.end, state.pods_revision
        self._seen_nodes = state.nodes_revision
        self._wake_nominated(changed, now)
        for group in self._queue.groups():
            if group.trying is not None:
                continue
            try:
                helps = (landed and group.unsettled) or self._may_help(group, changed, pods=pods, nodes=nodes)
                hurries = helps and now < group.not_before and changed and self._has_place(group, changed)
            except Exception as error:
                # Trying it tells what is wrong with it.
                state.report("asking whether a change helps pods that wait", error)
                helps, hurries = True, False
            if hurries:
                self._queue.hurry(group)
            if helps:
                self._queue.wake(group, now)

    def _wake_nominated(self, changed: set[int] | None, now: float) -> None:
        """To others the places that are kept are taken; only those they are kept for can tell whether they are free."""
        for uid, name in self._nominations.places():
            waiting, node = self._queue.get(uid), self._state.nodes.get(name)
            if waiting is None or waiting.place is not Place.PARKED:
                continue
            if changed is None or (node is not None and node.number in changed):
                self._queue.activate(waiting, now)

    def _may_help(self, group: Group, changed: set[int] | None, *, pods: bool, nodes: bool) -> bool:
        if changed is None or (group.social and (pods or nodes)):
            return True
        if group.nodes is not None:
            # Which nodes those are depends on which there are.
            return nodes or not group.nodes.isdisjoint(changed)
        if group.kind is None:
            return bool(changed)
        if self._has_place(group, changed):
            return True
        there = self._there(changed)
        first = group.first() if there else None
        return first is not None and first.pod.preempts and self._preemptor.may_try(first.pod, group.kind, there)

    def _has_place(self, group: Group, changed: set[int]) -> bool:
        """Whether there is one among the nodes that changed, as far as can be told cheaply."""
        kind = group.kind
        return kind is not None and any(not obstacles(self._state, kind, node) for node in self._there(changed))

    def _there(self, changed: set[int]) -> list[Node]:
        numbered = self._state.numbered
        return [node for number in changed if (node := numbered[number]) is not None and node.document]
