"""Turns: the pods to be tried of queues that take turns, and which pod is tried next.

Within a queue pods are tried by priority, then by arrival. The queue system decides which queue is next, again for each
pod, since every placed pod changes the shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from dray.scheduling.model.pod import Pod

Entry = tuple[int, int, str]
"""The order by priority and arrival, and the uid of the pod."""


class Turn(NamedTuple):
    """The turn that a pod of a queue waits for."""

    turns: Turns
    lane: str
    """The queue of the pod, or the part of the queue that takes turns."""
    priority: int
    """The priority of the pod within the lane."""


class Turns:
    def __init__(self, first: Callable[[Mapping[str, Pod]], str]) -> None:
        """`first` returns the queue that is next; it is called with the next pod of each queue."""
        self._first = first
        self._lanes: dict[str, list[Entry]] = {}

    def push(self, queue: str, entry: Entry) -> None:
        heappush(self._lanes.setdefault(queue, []), entry)

    def next(self, active: Callable[[str, Entry], Pod | None]) -> str:
        """Returns the uid of the pod that is tried next; empty if there is none. `active` returns the pod of an entry,
        or None if the pod must not be tried in that queue any more."""
        heads: dict[str, Pod] = {}
        for queue, lane in list(self._lanes.items()):
            while lane:
                pod = active(queue, lane[0])
                if pod is not None:
                    heads[queue] = pod
                    break
                heappop(lane)
            if not lane:
                del self._lanes[queue]
        if not heads:
            return ""
        return heads[self.choose(heads)].uid

    def choose(self, heads: Mapping[str, Pod]) -> str:
        """Returns the queue that is next; `heads` are the next pods by queue."""
        return self._first(heads) if len(heads) > 1 else next(iter(heads))
