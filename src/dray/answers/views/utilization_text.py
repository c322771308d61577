"""Texts about the utilization of devices: busy time, used memory, and idle time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dray.api.device_utilization import Utilization
from dray.api.times import seconds_of

_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


def busy(report: Utilization | None) -> str:
    return "-" if report is None or report.percent is None else f"{report.percent}%"


def memory_used(report: Utilization | None) -> str:
    return "-" if report is None or report.memory_used is None else f"{report.memory_used / 2**30:.1f}Gi"


def idle(report: Utilization | None, now: datetime) -> str:
    """Returns for how long the device has been idle, as in `12m`; empty if it is busy."""
    since = seconds_of(report.idle_since) if report is not None and report.idle_since else None
    return age(now.timestamp() - since) if since is not None else ""


def mean_utilization(reports: Sequence[Utilization | None], now: datetime) -> str:
    """Returns the mean of several devices, how many of them are idle, and for how long the first has been idle."""
    known = [report for report in reports if report is not None and report.percent is not None]
    if not known:
        return "-"
    mean = f"{round(sum(report.percent or 0 for report in known) / len(known))}%"
    times = (seconds_of(report.idle_since) for report in known if report.idle_since)
    since = [seconds for seconds in times if seconds is not None]
    return f"{mean}, {len(since)} idle for {age(now.timestamp() - min(since))}" if since else mean


def age(seconds: float) -> str:
    """Returns a duration in the largest unit of which it has at least two."""
    number = max(0, int(seconds))
    for unit, size in _UNITS:
        if number >= 2 * size:
            return f"{number // size}{unit}"
    return f"{number}s"
