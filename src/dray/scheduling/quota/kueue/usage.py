"""LocalUsage: the usage of LocalQueues over time (Kueue's admission fair sharing); less usage is admitted first.

With every sample past usage counts less: after a half-life it counts half. A pod that is admitted adds a penalty at
once: the part of its amounts that the next sample will show. So many pods of one LocalQueue that arrive together do not
get ahead of all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from dray.api.objects import Key


def alpha(elapsed: float, half_life: float) -> float:
    """Returns the part of past usage that the current usage replaces after `elapsed` seconds."""
    return 1.0 - 0.5 ** (elapsed / half_life) if half_life > 0 else 0.0


@dataclass(slots=True)
class Usage:
    consumed: dict[str, float] = field(default_factory=dict)
    at: float | None = None
    """The time of the last sample."""
    penalty: dict[str, float] = field(default_factory=dict)


class LocalUsage:
    def __init__(self) -> None:
        self._known: dict[Key, Usage] = {}

    def restore(self, key: Key, consumed: Mapping[str, float], at: float) -> None:
        """Sets the usage to what was written before a restart, unless the usage is known."""
        if key not in self._known:
            self._known[key] = Usage(dict(consumed), at)

    def remove(self, key: Key) -> None:
        self._known.pop(key, None)

    def is_due(self, key: Key, now: float, interval: float) -> bool:
        """Whether the next sample is due. The first call starts the interval."""
        usage = self._known.setdefault(key, Usage())
        if usage.at is None or usage.at > now:
            # A time in the future was written by a wrong clock.
            usage.at = now
        return now - usage.at >= max(interval, 1e-3)

    def sample(self, key: Key, current: Mapping[str, float], now: float, half_life: float) -> None:
        usage = self._known.setdefault(key, Usage(at=now))
        part = alpha(now - usage.at if usage.at is not None else 0.0, half_life)
        usage.consumed = {
            name: left
            for name in {*usage.consumed, *current}
            if (left := (1 - part) * usage.consumed.get(name, 0.0) + part * current.get(name, 0.0)) > 0
        }
        usage.at, usage.penalty = now, {}

    def admit(self, key: Key, wanted: Mapping[str, int], half_life: float, interval: float) -> None:
        usage, part = self._known.setdefault(key, Usage()), alpha(interval, half_life)
        for name, amount in wanted.items():
            usage.penalty[name] = usage.penalty.get(name, 0.0) + part * amount

    def consumed(self, key: Key) -> Mapping[str, float]:
        known = self._known.get(key)
        return known.consumed if known is not None else {}

    def sampled(self, key: Key) -> float | None:
        """Returns the time of the last sample."""
        known = self._known.get(key)
        return known.at if known is not None else None

    def score(self, key: Key, weight: float) -> float:
        """Returns the weighted usage; the lowest is admitted first. cpu counts in cores, other resources in their
        units."""
        if weight <= 0:
            return inf
        known = self._known.get(key)
        if known is None:
            return 0.0
        total = 0.0
        for amounts in (known.consumed, known.penalty):
            total += sum(amount / 1000 if name == "cpu" else amount for name, amount in amounts.items())
        return total / weight
