"""Run: the figures of one replay under one policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Final, NamedTuple

from dray.scheduling.model.reasons import Code, Reason
from dray.scheduling.model.status import Diagnosis, GroupDiagnosis


class Sample(NamedTuple):
    """The state of the cluster at one point of a replay."""

    x: float
    """The requested devices in percent if all workloads come at once, or seconds in virtual time."""
    allocated: float
    """Percent of all devices."""
    fragmented: float
    """Percent of the free devices."""
    watts: float
    whole_free: float
    """The number of devices of which nothing is in use."""


NOTHING: Final = Sample(0, 0, 0, 0, 0)


class Wait(NamedTuple):
    seconds: float
    size: str
    queue: str


@dataclass(slots=True)
class Run:
    policy: str
    seed: int
    units: int
    """The units of all devices, in thousandths."""
    requested: int = 0
    accepted: int = 0
    """The units of workloads that were placed."""
    placed: int = 0
    """The number of workloads that were placed."""
    evictions: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """The number of refused workloads by size."""
    reasons: Counter[str] = field(default_factory=Counter)
    """The number of refused workloads by reason."""
    waits: list[Wait] = field(default_factory=list)
    """The waiting time of each workload that was placed; in virtual time."""
    curve: list[Sample] = field(default_factory=list)
    figures: Sample = NOTHING
    """The state at the end if all workloads come at once, or the mean over the virtual time."""
    errors: list[str] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """The allocated part of all devices, in percent."""
        return self.figures.allocated

    @property
    def watts(self) -> float:
        return self.figures.watts

    @property
    def acceptance(self) -> float:
        """The placed part of all workloads, in percent."""
        total = self.placed + self.refused.total()
        return 100 * self.placed / total if total else 100.0


def wait_figures(waits: Iterable[float]) -> tuple[float, float]:
    """The median and the 95th percentile in seconds."""
    found = list(waits)
    if len(found) < 2:
        return (found[0], found[0]) if found else (0.0, 0.0)
    return median(found), quantiles(found, n=20, method="inclusive")[-1]


def waits_by(waits: Sequence[Wait], member: str) -> dict[str, tuple[float, float]]:
    """Median and 95th percentile by `size` or `queue`."""
    groups: dict[str, list[float]] = {}
    for wait in waits:
        groups.setdefault(getattr(wait, member), []).append(wait.seconds)
    return {name: wait_figures(groups[name]) for name in sorted(groups, key=size_order)}


def size_order(size: str) -> tuple[float, str]:
    """Sorts sizes by their number, and others by name."""
    try:
        return float(size), ""
    except ValueError:
        return float("inf"), size


def reason_of(diagnosis: Diagnosis | GroupDiagnosis) -> str:
    """The code of the reason that keeps the pods off most nodes, as in `CannotAllocate` or `Insufficient cpu`."""
    if diagnosis.status is not None and diagnosis.status.reasons:
        return _name(diagnosis.status.reasons[0])
    if isinstance(diagnosis, GroupDiagnosis):
        return reason_of(diagnosis.following) if diagnosis.following is not None else "GroupDoesNotFit"
    if not diagnosis.counts:
        return "Unknown"
    return _name(max(diagnosis.counts, key=lambda counted: counted[1])[0])


def _name(reason: Reason) -> str:
    name = "".join(word.capitalize() for word in reason.code.name.split("_"))
    return f"{name} {reason.args[0]}" if reason.code is Code.INSUFFICIENT else name
