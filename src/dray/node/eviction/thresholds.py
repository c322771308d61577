"""Eviction thresholds: less of something than is bearable, at once or for a while. Pure.

Written as for a kubelet: `memory.available<100Mi,nodefs.available<10%`, and for soft ones a grace period each,
`memory.available=1m30s`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from dray.api.quantity import Quantity, QuantityError

MEMORY: Final = "memory.available"
DISK: Final = "nodefs.available"
INODES: Final = "nodefs.inodesFree"
PIDS: Final = "pid.available"
SIGNALS: Final = (MEMORY, DISK, INODES, PIDS)
CONDITIONS: Final = {MEMORY: "MemoryPressure", DISK: "DiskPressure", INODES: "DiskPressure", PIDS: "PIDPressure"}
RESOURCES: Final = {MEMORY: "memory", DISK: "ephemeral-storage", INODES: "inodes", PIDS: "pids"}
DEFAULT_HARD: Final = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%"
_PARTS: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class ThresholdError(ValueError):
    """Raised for a threshold that cannot be parsed; says how it is written."""


class Observation(NamedTuple):
    """Observed values of one signal, in bytes, inodes or process ids."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold; `share` is a part of the capacity, used without `quantity`. Without `grace` it is a hard one."""

    signal: str
    quantity: int | None
    share: float = 0.0
    grace: float = 0.0

    def least(self, capacity: int) -> int:
        return self.quantity if self.quantity is not None else int(capacity * self.share)

    def is_met(self, seen: Observation) -> bool:
        return seen.available < self.least(seen.capacity)


def parse_hard(text: str) -> tuple[Threshold, ...]:
    """Parses hard thresholds; an empty text has none. Raises ThresholdError."""
    return tuple(_threshold(part) for part in text.split(",") if part.strip())


def parse_soft(text: str, graces: str) -> tuple[Threshold, ...]:
    given = dict(_grace(part) for part in graces.split(",") if part.strip())
    found = []
    for threshold in parse_hard(text):
        if threshold.signal not in given:
            raise ThresholdError(f"{threshold.signal}: a soft threshold needs a grace period, {threshold.signal}=1m")
        found.append(Threshold(threshold.signal, threshold.quantity, threshold.share, given[threshold.signal]))
    return tuple(found)


def _threshold(part: str) -> Threshold:
    signal, sign, value = (word.strip() for word in part.partition("<"))
    if signal not in SIGNALS or not sign:
        raise ThresholdError(f"{part.strip()!r}: write SIGNAL<AMOUNT with one of {', '.join(SIGNALS)}")
    try:
        if value.endswith("%"):
            return Threshold(signal, None, float(value[:-1]) / 100)
        return Threshold(signal, Quantity.parse(value).value())
    except (ValueError, QuantityError):
        wanted = "a quantity such as 100Mi or a share such as 10%"
        raise ThresholdError(f"{part.strip()!r}: {value!r} is not {wanted}") from None


def _grace(part: str) -> tuple[str, float]:
    signal, _, value = (word.strip() for word in part.partition("="))
    return signal, duration(value)


def duration(text: str) -> float:
    """Parses a duration such as 1m30s and returns its seconds; raises ThresholdError."""
    found = _PARTS.findall(text)
    if not found or "".join(number + unit for number, unit in found) != text:
        raise ThresholdError(f"{text!r} is not a duration like 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


def met(thresholds: tuple[Threshold, ...], seen: Mapping[str, Observation]) -> list[Threshold]:
    return [
        threshold for threshold in thresholds if threshold.signal in seen and threshold.is_met(seen[threshold.signal])
    ]
