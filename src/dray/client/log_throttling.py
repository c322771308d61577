"""Throttled warnings: the first of a cause at once, then once a minute how many more there were.

A server that is slow or refuses does so for every object that is worked on; hundreds of lines say no more than one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from dray.client.errors import ApiError, ConnectionFailed

_PERIOD: Final = 60.0
# Limit of causes that are told apart.
_CAUSES: Final = 100


@dataclass(slots=True)
class _Repeated:
    more: int = 0
    last: str = ""


class ThrottledLog:
    def __init__(self, logger: logging.Logger, *, period: float = _PERIOD) -> None:
        self._logger = logger
        self._period = period
        self._known: dict[Hashable, _Repeated] = {}

    def warning(self, cause: Hashable, message: str, *args: object) -> None:
        """Logs a warning; warnings with the same `cause` are throttled. Call it in the event loop."""
        if cause not in self._known and len(self._known) >= _CAUSES:
            cause = None
        repeated = self._known.get(cause)
        if repeated is None:
            self._known[cause] = _Repeated()
            self._logger.warning(message, *args)
            asyncio.get_running_loop().call_later(self._period, self._sum_up, cause)
        else:
            repeated.more += 1
            repeated.last = message % args

    def _sum_up(self, cause: Hashable) -> None:
        repeated = self._known[cause]
        if not repeated.more:
            del self._known[cause]
            return
        self._logger.warning("%s (%d times in %g s)", repeated.last, repeated.more, self._period)
        self._known[cause] = _Repeated()
        asyncio.get_running_loop().call_later(self._period, self._sum_up, cause)


def cause_of(error: Exception) -> Hashable:
    """Returns what is equal for all objects that fail for the same reason."""
    if isinstance(error, ApiError):
        return error.status, error.reason, str(error.details.get("kind") or "")
    if isinstance(error, ConnectionFailed):
        return error.cause
    return type(error).__name__
