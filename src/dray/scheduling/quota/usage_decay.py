"""UsageHistory: how much of the cluster each queue used over a window of time; more past usage lowers a share.

The amounts that a queue held, and the capacity, are integrated over time. The usage is the first divided by the second.
With a half-life, amounts that were held one half-life ago count half. The window slides, or starts again each time it
ends (tumbling). It is kept in buckets, so that its size does not grow with the number of samples; `to_object` returns
everything that a restart needs. Times without samples do not count.
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
# A longer gap between two samples is a time without samples.
_LONGEST_STEP: Final = 600.0


@dataclass(frozen=True, slots=True)
class UsageOptions:
    window: float = WEEK
    half_life: float | None = None
    """The number of seconds after which usage counts half; None: usage does not decay."""
    tumbling: bool = False
    """Whether the window starts again at its end, instead of sliding."""
    k: float = 1.0
    """The weight of past usage in shares."""


@dataclass(slots=True)
class _Bucket:
    start: float
    end: float
    capacity: dict[str, float] = field(default_factory=dict)
    used: dict[str, dict[str, float]] = field(default_factory=dict)
    """The usage by queue. Capacity and usage are decayed to the end of the bucket."""


class UsageHistory:
    def __init__(self, options: UsageOptions) -> None:
        self._options = options
        self._buckets: list[_Bucket] = []
        self._last: float | None = None

    def sample(self, now: float, held: Mapping[str, Amounts], capacity: Amounts) -> None:
        """Adds the amounts that queues held, and the capacity, for the time since the last sample."""
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
        """Returns the bucket for a sample from `start` to `now`."""
        self._drop(now)
        known = self._buckets[-1] if self._buckets else None
        # A bucket that ends in the future was begun before the clock was set back.
        if known is None or known.end > now or now > known.start + self._options.window / _BUCKETS:
            known = _Bucket(start, start)
            self._buckets.append(known)
        return known

    def _drop(self, now: float) -> None:
        """Drops buckets before the window."""
        begin = self._begin(now)
        self._buckets = [bucket for bucket in self._buckets if bucket.end > begin]

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
        """Returns the integral of an amount of one that was held for `step` seconds until now, with decay."""
        half_life = self._options.half_life
        return half_life / log(2) * (1 - self._fade(step)) if half_life else step

    # Restart

    def to_object(self) -> Object:
        return {
            "buckets": [
                {
                    "start": round(bucket.start, 3),
                    "end": round(bucket.end, 3),
                    "capacity": _rounded(bucket.capacity),
                    "used": {queue: _rounded(held) for queue, held in bucket.used.items() if any(held.values())},
                }
                for bucket in self._buckets
            ]
        }

    def restore(self, document: Any, now: float) -> None:
        """Reads the buckets of an earlier process. Invalid buckets, and buckets from the future (by a wrong clock), are
        left out."""
        self._buckets = []
        for entry in mappings(mapping(document).get("buckets")):
            start, end = _number(entry.get("start")), _number(entry.get("end"))
            if 0 <= start < end <= now + _LONGEST_STEP:
                used = {str(queue): _numbers(amounts) for queue, amounts in mapping(entry.get("used")).items()}
                self._buckets.append(_Bucket(start, end, _numbers(entry.get("capacity")), used))
        self._buckets.sort(key=lambda bucket: bucket.start)


def _grow(total: dict[str, float], amounts: Amounts, fade: float, step: float) -> None:
    for name in total.keys() | amounts.keys():
        total[name] = total.get(name, 0.0) * fade + amounts.get(name, 0.0) * step


def _rounded(amounts: Amounts) -> dict[str, float]:
    """Returns the amounts rounded to six digits."""
    return {name: float(f"{amount:.6g}") for name, amount in amounts.items()}


def _number(value: Any) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
    return float(value) if known else 0.0


def _numbers(amounts: Any) -> dict[str, float]:
    return {str(name): max(0.0, _number(amount)) for name, amount in mapping(amounts).items()}
