"""Turns: pods that are to be tried, of queues that take turns: which of all of them is tried next.

Within a queue it is the most urgent, then the first that came. Between queues the front end decides, each time anew,
since every pod that gets a place changes what is fair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from dray.scheduling.model.pod import Pod

Entry = tuple[int, int, str]
"""Order by priority and arrival, and the pod's uid."""


class Turn(NamedTuple):
    """What a pod waits for that has its turn after others."""

    turns: Turns
    lane: str
    """Its queue, or what of it takes turns."""
    priority: int
    """Within the lane."""


class Turns:
    def __init__(self, first: Callable[[Mapping[str, Pod]], str]) -> None:
        """`first` gives the queue whose turn it is, of those whose next pods it is given."""
        self._first = first
        self._lanes: dict[str, list[Entry]] = {}

    def push(self, queue: str, entry: Entry) -> None:
        heappush(self._lanes.setdefault(queue, []), entry)

    def next(self, active: Callable[[str, Entry], Pod | None]) -> str:
        """The uid of the pod whose turn it is; empty where there is none. `active` gives the pod of an entry, if it is
        to be tried in that queue."""
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
        """The queue whose turn it is, of those whose next pods these are."""
        return self._first(heads) if len(heads) > 1 else next(iter(heads))
