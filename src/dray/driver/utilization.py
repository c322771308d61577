"""Utilization of devices: sampled from the driver, shown as metrics, and reported in the status of prepared claims.

A claim is written when the report differs by a step of ten percent, by a twentieth of the memory or in whether the
device is idle, but at most once a minute; and every ten minutes in any case. Other members that the driver has put
into the device's entry stay. When a claim is not prepared any more, its report is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from dray.api import device_utilization
from dray.api.device_utilization import IDLE_PERCENT
from dray.api.objects import Object, mapping, uid_of
from dray.api.times import seconds_of, text_of
from dray.client.api import ApiClient
from dray.client.clock import SystemTime, timestamp
from dray.client.errors import ApiError, ClientError, NotFound
from dray.client.log_throttling import ThrottledLog
from dray.driver.claim_lookup import RESOURCE_CLAIMS
from dray.driver.claims import ClaimReference, PreparedClaim, RecordedClaims
from dray.driver.device_status import DeviceStatuses
from dray.driver.driver import DeviceUtilization, Driver
from dray.driver.metrics import DriverMetrics
from dray.driver.options import RunnerOptions

_STEP_PERCENT: Final = 10
_STEP_MEMORY: Final = 20
_REFRESH_SECONDS: Final = 600.0
_logger = logging.getLogger(__name__)

Place = tuple[str, str]
"""Identifies a device by its pool and its name."""
Reports = Mapping[Place, device_utilization.Utilization]


@dataclass(slots=True)
class _Written:
    reference: ClaimReference
    first_seen: datetime
    reports: Reports = field(default_factory=dict)
    at: float = float("-inf")


class UtilizationReports:
    def __init__(
        self,
        driver: Driver,
        client: ApiClient,
        statuses: DeviceStatuses,
        recorded: Callable[[], RecordedClaims],
        metrics: DriverMetrics,
        options: RunnerOptions,
    ) -> None:
        self._driver = driver
        self._client = client
        self._statuses = statuses
        self._recorded = recorded
        self._metrics = metrics
        self._options = options
        self._time = SystemTime()
        self._log = ThrottledLog(_logger)
        self._written: dict[str, _Written] = {}
        """The last report that was written for each claim, by claim uid."""
        self._low_since: dict[Place, datetime] = {}

    async def run(self) -> None:
        """Samples and reports until it is cancelled."""
        while True:
            await asyncio.sleep(self._options.utilization_seconds)
            try:
                await self.report()
            except Exception as error:
                self._metrics.failed("utilization")
                self._metrics.utilization(())
                cause = type(error).__name__
                self._log.warning(cause, "driver %s: utilization cannot be read: %s", self._driver.name, error)

    async def report(self) -> None:
        """Samples the devices once, and writes the claims that are due."""
        sampled = await self._driver.utilization()
        self._metrics.utilization(sampled)
        self._note_low(sampled)
        found = {(sample.pool, sample.device): sample for sample in sampled}
        recorded = await asyncio.to_thread(self._recorded)
        prepared = {claim.reference.uid: claim for claim in recorded.claims if claim.is_complete}
        for claim in prepared.values():
            await self._report_claim(claim, found)
        for uid in set(self._written) - set(prepared):
            await self._withdraw(self._written.pop(uid).reference)

    def _note_low(self, sampled: Sequence[DeviceUtilization]) -> None:
        before, self._low_since = self._low_since, {}
        for sample in sampled:
            if sample.ratio is not None and sample.ratio * 100 < IDLE_PERCENT:
                place = sample.pool, sample.device
                self._low_since[place] = before.get(place) or self._time.now()

    async def _report_claim(self, claim: PreparedClaim, found: Mapping[Place, DeviceUtilization]) -> None:
        uid = claim.reference.uid
        written = self._written.setdefault(uid, _Written(claim.reference, self._time.now()))
        places = {(device.pool, device.device) for device in claim.devices if not device.admin_access}
        reports = {place: self._made(found[place], written) for place in sorted(places) if place in found}
        age = monotonic() - written.at
        is_due = age >= self._options.utilization_write_seconds and _differ(reports, written.reports)
        if is_due or (reports and age >= _REFRESH_SECONDS):
            await self._write(written, reports)

    def _made(self, sampled: DeviceUtilization, written: _Written) -> device_utilization.Utilization:
        now, since = self._time.now(), ""
        low = self._low_since.get((sampled.pool, sampled.device))
        if low is not None:
            # What the device did for another claim before does not count.
            low = max(low, written.first_seen)
            if (now - low).total_seconds() >= self._options.idle_seconds:
                since = timestamp(low)
        percent = None if sampled.ratio is None else round(100 * min(max(sampled.ratio, 0.0), 1.0))
        return device_utilization.Utilization(percent, sampled.memory_used, timestamp(now), since)

    async def _write(self, written: _Written, reports: Reports) -> None:
        written.at = monotonic()
        try:
            entries = await self._entries(written.reference)
            if entries is None:
                return
            if not written.reports:
                reports = self._adopt(entries, reports, written)
            await self._statuses.apply_entries(written.reference, [_with_report(*entry, reports) for entry in entries])
        except ClientError as error:
            self._metrics.failed("utilization")
            self._log.warning("write", "the utilization of claim %s cannot be written: %s", written.reference, error)
        else:
            written.reports = reports

    def _adopt(self, entries: Sequence[tuple[Place, Object]], reports: Reports, written: _Written) -> Reports:
        """Takes over since when devices are idle from what the driver wrote before it was started again."""
        made = dict(reports)
        for place, entry in entries:
            before = device_utilization.reported(entry)
            since = seconds_of(before.idle_since) if before is not None else None
            if place in made and place in self._low_since and since is not None:
                self._low_since[place] = written.first_seen = datetime.fromtimestamp(since, UTC)
                made[place] = replace(made[place], idle_since=text_of(since))
        return made

    async def _entries(self, reference: ClaimReference) -> list[tuple[Place, Object]] | None:
        """Returns an entry for each device of the claim, with what it has now; None if the claim is gone."""
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, reference.name, namespace=reference.namespace)
        except NotFound:
            return None
        if uid_of(claim) != reference.uid:
            return None
        return self._statuses.entries(claim)

    async def _withdraw(self, reference: ClaimReference) -> None:
        try:
            entries = await self._entries(reference)
            if entries is not None and any(device_utilization.reported(entry) for _, entry in entries):
                await self._statuses.apply_entries(reference, [_with_report(*entry, {}) for entry in entries])
        except ClientError as error:
            # A node may not read claims that none of its pods has, whether they are there or not.
            if not (isinstance(error, ApiError) and error.status == 403):
                self._log.warning("write", "the utilization of claim %s cannot be removed: %s", reference, error)


def _with_report(place: Place, entry: Object, reports: Reports) -> Object:
    data = {name: value for name, value in mapping(entry.get("data")).items() if name != device_utilization.KEY}
    if place in reports:
        data[device_utilization.KEY] = reports[place].document()
    rest = {name: value for name, value in entry.items() if name != "data"}
    return {**rest, "data": data} if data else rest


def _differ(reports: Reports, before: Reports) -> bool:
    """Whether the reports differ so much that they are worth a write."""
    return reports.keys() != before.keys() or any(differs(report, before[place]) for place, report in reports.items())


def differs(report: device_utilization.Utilization, before: device_utilization.Utilization) -> bool:
    """Whether a report differs so much from the one before that it is worth a write."""
    if report.idle_since != before.idle_since or (report.percent is None) != (before.percent is None):
        return True
    if report.percent is not None and before.percent is not None:
        was_idle, is_idle = before.percent < IDLE_PERCENT, report.percent < IDLE_PERCENT
        if was_idle != is_idle or abs(report.percent - before.percent) >= _STEP_PERCENT:
            return True
    least, most = sorted((report.memory_used or 0, before.memory_used or 0))
    return (most - least) * _STEP_MEMORY > most
