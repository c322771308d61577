"""Utilization of devices in words: how busy they are, how much memory is in use, and since when they are idle."""

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
    """Returns for how long the device has been idle, `12m`; empty if it works."""
    since = seconds_of(report.idle_since) if report is not None and report.idle_since else None
    return age(now.timestamp() - since) if since is not None else ""


def together(reports: Sequence[Utilization | None], now: datetime) -> str:
    """Returns the mean of several devices, and how many of them have been idle, the longest for how long."""
    known = [each for each in reports if each is not None and each.percent is not None]
    if not known:
        return "-"
    mean = f"{round(sum(each.percent or 0 for each in known) / len(known))}%"
    since = [each for each in (seconds_of(one.idle_since) for one in known if one.idle_since) if each is not None]
    return f"{mean}, {len(since)} idle for {age(now.timestamp() - min(since))}" if since else mean


def age(seconds: float) -> str:
    """In the largest unit of which there are two."""
    number = max(0, int(seconds))
    for unit, size in _UNITS:
        if number >= 2 * size:
            return f"{number // size}{unit}"
    return f"{number}s"
