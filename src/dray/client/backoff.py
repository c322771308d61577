"""Exponential backoff with jitter: delays that double up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Random = Callable[[], float]
"""A number from 0 up to 1, as `random.random` gives it."""


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float = 0.1
    longest: float = 30.0
    # The share of the wait that is left to chance.
    jitter: float = 0.5

    def delay(self, failures: int, random: Random) -> float:
        """Seconds to wait after so many failures in a row, counted from 1."""
        # Beyond 2**60 the product would only lose precision and then overflow.
        wait = min(self.longest, self.first * 2.0 ** min(failures - 1, 60))
        return wait * (1 - self.jitter * random())
