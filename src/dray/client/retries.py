"""Retries of requests: which may be sent again, and when.

A request that never left may always be repeated. One that the server may have seen is repeated only if doing it twice
is the same as doing it once. `429` is a promise that nothing was done. Clock and chance are handed in.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from dray.client.errors import ConnectionFailed
from dray.client.transport import Answer, Request

_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_SERVER_FAULTS: Final = frozenset({500, 502, 503, 504})
# Longest wait, whatever the server asks for.
_LONGEST_WAIT: Final = 60.0

Random = Callable[[], float]
"""Returns a number from 0 up to 1, such as `random.random`."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float = 0.1
    longest: float = 30.0
    # The random share of the wait.
    jitter: float = 0.5

    def delay(self, failures: int, random: Random) -> float:
        """Returns the seconds to wait after this number of failures in a row, counted from 1."""
        # Beyond 2**60 the product would lose precision and overflow.
        wait = min(self.longest, self.first * 2.0 ** min(failures - 1, 60))
        return wait * (1 - self.jitter * random())

    def delays(self, random: Random = random.random) -> Iterator[float]:
        """Yields the seconds to wait after each failure in a row, without end."""
        return (self.delay(failures, random) for failures in count(1))


_BACKOFF: Final = Backoff(first=0.1, longest=5.0)


@dataclass(frozen=True, slots=True)
class Retries:
    attempts: int = 6
    backoff: Backoff = _BACKOFF
    sleep: Sleep = asyncio.sleep
    random: Random = random.random

    async def send(self, send: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer:
        failures = 0
        while True:
            failures += 1
            try:
                answer = await send(request)
            except ConnectionFailed as failure:
                if failures >= self.attempts or (failure.sent and request.method not in _IDEMPOTENT):
                    raise
                asked = 0.0
            else:
                if answer.status < 400:
                    return answer
                asked = retry_after(answer.headers.get("retry-after", ""))
                if failures >= self.attempts or not _worthwhile(request, answer.status, asked):
                    return answer
            await self.pause(failures, asked)

    async def pause(self, failures: int, asked: float = 0) -> None:
        """Waits after this number of failures in a row, at least `asked` seconds as the server wants."""
        await self.sleep(max(min(asked, _LONGEST_WAIT), self.backoff.delay(failures, self.random)))


def retry_after(value: str) -> float:
    """Returns the seconds of a Retry-After header; 0 if it is missing or a date, which API servers do not send."""
    return float(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0.0


def _worthwhile(request: Request, status: int, asked: float) -> bool:
    if status == 429:
        return asked > 0
    return status in _SERVER_FAULTS and request.method in _IDEMPOTENT
