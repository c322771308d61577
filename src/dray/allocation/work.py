"""The work of an attempt, counted wherever it is done: devices tried, bounds, look-ahead, expressions.

One unit is about a microsecond of one core (CPython 3.12 at 3 GHz); what is charged for each kind of work was measured
there. So a limit is a promise about time that needs no clock, and the same input always ends at the same place.
An `AllocationError` ends an attempt too: Kubernetes then gives up on the pod, not only on the node.
"""

from __future__ import annotations

from typing import Final

ATTEMPT: Final = 30_000
"""Limit for callers that must stay responsive: about 50 ms, including work that is not counted."""
THOROUGH: Final = 5_000_000
"""Limit for callers that have nothing else to do: about 5 s."""


class AllocationError(Exception):
    """The claims cannot be judged: an expression failed, a class is missing, or a pool is incomplete."""


class WorkExhausted(Exception):
    """The work limit was reached; the question stays undecided."""


class Work:
    """Counts units, up to a limit."""

    __slots__ = ("limit", "spent")

    def __init__(self, limit: int = THOROUGH) -> None:
        self.limit = limit
        self.spent = 0

    def spend(self, units: int) -> None:
        self.spent += units
        if self.spent > self.limit:
            raise WorkExhausted

    @property
    def left(self) -> int:
        return max(0, self.limit - self.spent)

    def share(self, units: int) -> _Share:
        """Limits the work inside the context to a part of what is left."""
        return _Share(self, units)


class _Share:
    """A context manager of its own: a generator costs twice as many calls, in every attempt."""

    __slots__ = ("_limit", "_work")

    def __init__(self, work: Work, units: int) -> None:
        self._work, self._limit = work, work.limit
        work.limit = min(work.limit, work.spent + units)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._work.limit = self._limit


def undecided(work: Work) -> str:
    return f"undecided after {work.spent:,} units of work"
