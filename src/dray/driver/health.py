"""Health of devices, as a driver reports it.

The kubelet shows it in the status of pods. The SDK repeats reports before they expire, and taints unhealthy devices
until they are healthy again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Health(IntEnum):
    """Health states, with the numbers of the kubelet's health protocol."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """`timeout` is for how many seconds the report holds without another one; the SDK repeats it in time."""

    pool: str
    device: str
    health: Health
    message: str = ""
    timeout: int = 30
