"""UsageHistory: how much of the cluster each queue had over a window of time; who had more lately gets less now.

Amounts are integrated over time: what a queue held, and what there was. Its usage is the one divided by the other. With
a half-life, what was held so long ago counts half. The window slides, or starts anew each time it is over. It is kept
in buckets, so that its size does not grow with the number of samples; `to_object` has all that a restart needs. While
nobody took samples, nothing is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log
from typing import Any, Final

from dray.api.objects import Object, mapping, mappings

Amounts = Mapping[str, float]
WEEK: Final = 7 * 24 * 3600.0
_BUCKETS: Final = 48
_MOST: Final = 2.0**100
# A gap between samples that is longer than this was a time without samples.
_LONGEST_STEP: Final = 600.0


@dataclass(frozen=True, slots=True)
class UsageOptions:
    window: float = WEEK
    half_life: float | None = None
    """In seconds, as the window."""
    tumbling: bool = False
    """Whether the window starts anew at its end, rather than to slide."""
    k: float = 1.0
    """How much usage counts for shares."""


@dataclass(slots=True)
class _Bucket:
    start: float
    end: float
    capacity: dict[str, float] = field(default_factory=dict)
    used: dict[str, dict[str, float]] = field(default_factory=dict)
    """The usage by queue. Both are decayed to the end of the bucket."""


class UsageHistory:
    def __init__(self, options: UsageOptions) -> None:
        self._options = options
        self._buckets: list[_Bucket] = []
        self._last: float | None = None

    def sample(self, now: float, held: Mapping[str, Amounts], capacity: Amounts) -> None:
        """Since the last time so much was held, by queue, of that capacity."""
        last, self._last = self._last, now
        if last is None or not 0 < now - last <= _LONGEST_STEP:
            return
        bucket = self._bucket(last, now)
        fade, step = self._fade(now - bucket.end), self._integral(now - last)
        bucket.end = now
        _grow(bucket.capacity, capacity, fade, step)
        for queue in bucket.used.keys() | held.keys():
            _grow(bucket.used.setdefault(queue, {}), held.get(queue, {}), fade, step)

    def usage(self, now: float) -> dict[str, dict[str, float]]:
        """Returns the past usage by queue and resource, as a fraction of the capacity."""
        self._drop(now)
        capacity: dict[str, float] = {}
        used: dict[str, dict[str, float]] = {}
        for bucket in self._buckets:
            weight = self._weight(bucket, now)
            _grow(capacity, bucket.capacity, 1.0, weight)
            for queue, amounts in bucket.used.items():
                _grow(used.setdefault(queue, {}), amounts, 1.0, weight)
        return {
            queue: {name: amount / capacity[name] for name, amount in amounts.items() if capacity.get(name)}
            for queue, amounts in used.items()
        }

    def _bucket(self, start: float, now: float) -> _Bucket:
        """The one that a sample belongs to."""
        self._drop(now)
        known = self._buckets[-1] if self._buckets else None
        # One that ends later was begun before the clock was set back.
        if known is None or known.end > now or now > known.start + self._options.window / _BUCKETS:
            known = _Bucket(start, start)
            self._buckets.append(known)
        return known

    def _drop(self, now: float) -> None:
        """Drops buckets before the window."""
        begin = self._begin(now)
        self._buckets = [each for each in self._buckets if each.end > begin]

    def _begin(self, now: float) -> float:
        window = self._options.window
        return now - now % window if self._options.tumbling else now - window

    def _weight(self, bucket: _Bucket, now: float) -> float:
        begin = self._begin(now)
        inside = (bucket.end - max(begin, bucket.start)) / (bucket.end - bucket.start)
        return inside * self._fade(max(0.0, now - bucket.end))

    def _fade(self, age: float) -> float:
        half_life = self._options.half_life
        return 0.5 ** (age / half_life) if half_life else 1.0

    def _integral(self, step: float) -> float:
        """Returns the integral of an amount of one, held over a time that ends now."""
        half_life = self._options.half_life
        return half_life / log(2) * (1 - self._fade(step)) if half_life else step

    # Over a restart

    def to_object(self) -> Object:
        return {
            "buckets": [
                {
                    "start": round(each.start, 3),
                    "end": round(each.end, 3),
                    "capacity": _rounded(each.capacity),
                    "used": {queue: _rounded(amounts) for queue, amounts in each.used.items() if any(amounts.values())},
                }
                for each in self._buckets
            ]
        }

    def restore(self, document: Any, now: float) -> None:
        """Takes what can be read of it, and what is not from a time yet to come: a wrong clock wrote that."""
        self._buckets = []
        for each in mappings(mapping(document).get("buckets")):
            start, end = _number(each.get("start")), _number(each.get("end"))
            if 0 <= start < end <= now + _LONGEST_STEP:
                used = {str(queue): _numbers(amounts) for queue, amounts in mapping(each.get("used")).items()}
                self._buckets.append(_Bucket(start, end, _numbers(each.get("capacity")), used))
        self._buckets.sort(key=lambda each: each.start)


def _grow(total: dict[str, float], amounts: Amounts, fade: float, step: float) -> None:
    for name in total.keys() | amounts.keys():
        total[name] = total.get(name, 0.0) * fade + amounts.get(name, 0.0) * step


def _rounded(amounts: Amounts) -> dict[str, float]:
    """Rounds to six digits."""
    return {name: float(f"{amount:.6g}") for name, amount in amounts.items()}


def _number(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    return float(value) if known else 0.0


def _numbers(amounts: Any) -> dict[str, float]:
    return {str(name): max(0.0, _number(amount)) for name, amount in mapping(amounts).items()}
