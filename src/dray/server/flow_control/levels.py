"""A priority level: limits concurrent requests, and queues the others.

Flows that wait are served in turn, one request each, so that one with many requests keeps no other from its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from dray.api.objects import Object, mapping, spec_of
from dray.server import status

_LONGEST_WAIT: Final = 15.0
_BUSY: Final = "too many requests, please try again later"


class Level:
    def __init__(self, name: str) -> None:
        self.name = name
        self.uid = ""
        self.shares = 0
        self.limit: int | None = None
        """Limit of concurrent requests; None for no limit."""
        self.executing = 0
        self.rejected = 0
        self.dispatched = 0
        self._per_flow = self._most = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def configure(self, obj: Object) -> None:
        self.uid, spec = str(obj["metadata"]["uid"]), spec_of(obj)
        exempt = spec.get("type") == "Exempt"
        limited = mapping(spec.get("exempt" if exempt else "limited"))
        self.shares = int(limited.get("nominalConcurrencyShares") or 0)
        self.limit = None if exempt else self.limit or 1
        queuing = mapping(mapping(limited.get("limitResponse")).get("queuing"))
        self._per_flow = int(queuing.get("queueLengthLimit") or 0)
        self._most = self._per_flow * int(queuing.get("queues") or 0)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def allow(self, limit: int) -> None:
        if self.limit is not None:
            self.limit = limit
            self._serve()

    async def enter(self, flow: str) -> None:
        """Waits for a seat; raises a 429 if the queue is full. Call `leave` after it."""
        if self.limit is None or (self.executing < self.limit and not self._waiting):
            self.executing += 1
            self.dispatched += 1
            return
        queue = self._waiting.get(flow, ())
        if len(queue) >= self._per_flow or self.waiting >= self._most:
            self.rejected += 1
            raise status.too_many_requests(_BUSY)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(flow, deque()).append(turn)
        self._serve()
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._forget(flow, turn)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                raise status.too_many_requests(_BUSY) from None
            raise
        self.dispatched += 1

    def leave(self) -> None:
        self.executing -= 1
        self._serve()

    def _serve(self) -> None:
        while self._waiting and (self.limit is None or self.executing < self.limit):
            flow, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            # The flow moves to the end of the order.
            del self._waiting[flow]
            if queue:
                self._waiting[flow] = queue
            if not turn.done():
                turn.set_result(None)
                self.executing += 1

    def _forget(self, flow: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(flow)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[flow]
