"""The device health cache: the last report of each device, and the state file that outlives the agent.

A report holds until its timeout passes without another; the device is Unknown then. A device that is missing in a
later response keeps its report until that. Times are handed in as seconds since 1970. The file has the form of a
kubelet's `dra_health_state`; one that cannot be read is passed over, since drivers report anew when they are
connected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from dray.client.clock import micro_timestamp, moment
from dray.driver.files import replace_file
from dray.process.beneath import read_regular

HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"
UNKNOWN: Final = "Unknown"

MAX_DEVICES: Final = 16384
"""Limit per driver; reports of further devices are dropped."""
MAX_MESSAGE: Final = 1024
_LARGEST: Final = 256 << 20
_NANOSECONDS: Final = 1_000_000_000
_logger = logging.getLogger(__name__)

Place = tuple[str, str]
"""Pool and name of a device."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    pool: str
    device: str
    health: str
    timeout: float
    message: str = ""
    updated: float = 0.0

    @property
    def place(self) -> Place:
        return self.pool, self.device

    def same_as(self, other: DeviceHealth | None) -> bool:
        """Returns True if health, message and timeout are equal; pods need no update then."""
        if other is None:
            return False
        return (self.health, self.message, self.timeout) == (other.health, other.message, other.timeout)


class _Stored(msgspec.Struct):
    PoolName: str
    DeviceName: str
    Health: str
    LastUpdated: str
    HealthCheckTimeout: int
    Message: str = ""


class _Driver(msgspec.Struct):
    Devices: dict[str, _Stored] = {}


_decode: Final = msgspec.json.Decoder(dict[str, _Driver]).decode


class HealthCache:
    """Device health by driver; without a path nothing is saved to disk."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._drivers: dict[str, dict[Place, DeviceHealth]] = {}
        if path is not None:
            self._load(path)

    def health(self, driver: str, pool: str, device: str, now: float) -> DeviceHealth | None:
        """Returns the valid report for a device; None means Unknown."""
        found = self._drivers.get(driver, {}).get((pool, device))
        return found if found is not None and _holds(found, now) else None

    def update(self, driver: str, reports: Iterable[DeviceHealth], now: float) -> set[Place]:
        """Stores the reports of one response. Returns the devices whose health changed."""
        kept = self._drivers.setdefault(driver, {})
        changed: set[Place] = set()
        for report in (_at(reported, now) for reported in reports):
            known = kept.get(report.place)
            if known is None and len(kept) >= MAX_DEVICES:
                _logger.warning(
                    "health of DRA driver %s: more than %d devices, %s is not kept", driver, MAX_DEVICES, report.place
                )
                continue
            if not report.same_as(known if known is not None and _holds(known, now) else None):
                changed.add(report.place)
            kept[report.place] = report
        self._save()
        return changed

    def expire(self, now: float) -> dict[str, set[Place]]:
        """Drops expired reports. Returns their devices by driver."""
        expired: dict[str, set[Place]] = {}
        for driver, kept in self._drivers.items():
            gone = {place for place, report in kept.items() if not _holds(report, now)}
            for place in gone:
                del kept[place]
            if gone:
                expired[driver] = gone
        if expired:
            self._save()
        return expired

    def drop(self, driver: str) -> set[Place]:
        """Drops all reports of a driver. Returns their devices."""
        gone = set(self._drivers.pop(driver, {}))
        if gone:
            self._save()
        return gone

    def _save(self) -> None:
        if self._path is None:
            return
        document = {
            driver: _Driver({f"{pool}/{device}": _stored(report) for (pool, device), report in kept.items()})
            for driver, kept in self._drivers.items()
        }
        try:
            replace_file(self._path, msgspec.json.encode(document))
        except OSError as error:
            # The reports stay in memory, and drivers report anew after a restart.
            _logger.warning("device health cannot be saved in %s: %s", self._path, error.strerror)

    def _load(self, path: Path) -> None:
        try:
            drivers = _decode(read_regular(path, _LARGEST))
            self._drivers = {
                name: {(device.PoolName, device.DeviceName): _report(device) for device in driver.Devices.values()}
                for name, driver in drivers.items()
            }
        except FileNotFoundError:
            pass
        except (OSError, ValueError, ArithmeticError, RecursionError) as error:
            _logger.warning("device health in %s is not used: %s", path, error)


def _holds(report: DeviceHealth, now: float) -> bool:
    # A report from the future was saved before the wall clock was set back.
    return report.updated - report.timeout <= now <= report.updated + report.timeout


def _at(report: DeviceHealth, now: float) -> DeviceHealth:
    message = report.message
    if len(message) > MAX_MESSAGE:
        message = message[: MAX_MESSAGE - 3] + "..."
    return DeviceHealth(report.pool, report.device, report.health, report.timeout, message, now)


def _stored(report: DeviceHealth) -> _Stored:
    updated = micro_timestamp(datetime.fromtimestamp(report.updated, UTC))
    timeout = int(report.timeout * _NANOSECONDS)
    return _Stored(report.pool, report.device, report.health, updated, timeout, report.message)


def _report(stored: _Stored) -> DeviceHealth:
    return DeviceHealth(
        stored.PoolName,
        stored.DeviceName,
        stored.Health,
        stored.HealthCheckTimeout / _NANOSECONDS,
        stored.Message,
        moment(stored.LastUpdated).timestamp(),
    )
