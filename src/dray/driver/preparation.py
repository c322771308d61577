"""Prepare and unprepare of claims, around the driver's methods: look-up, locks, records on disk, CDI files.

A claim fails alone. Prepare writes a record before the driver's method runs and completes it afterwards; the record
names the attempt, and whoever finds another attempt in it, or none, was overtaken: by an unprepare, after which a
prepare that still ran undoes itself, or by the other instance in a rolling update. Unprepare works from the record
alone, and interrupts a prepare of the same claim that is still running.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dray.api.objects import Object
from dray.client.api import ApiClient
from dray.driver.checkpoint import Checkpoint, Record
from dray.driver.claim_lookup import devices_for, look_up, still_holds
from dray.driver.claims import AllocatedDevice, Claim, ClaimReference
from dray.driver.device_status import DeviceStatuses
from dray.driver.driver import Driver, awaited
from dray.driver.errors import ClaimFailed, DriverError
from dray.driver.injection import AnsweredDevice, Injection
from dray.driver.metadata_files import MetadataFiles
from dray.driver.metrics import DriverMetrics
from dray.driver.prepared import Prepared
from dray.driver.serialization import ClaimLocks, DriverLock

_MOST_TRACED: Final = 256
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer for one claim: an error, or the prepared devices. Both may be empty."""

    error: str = ""
    devices: list[AnsweredDevice] = field(default_factory=list)


@dataclass(eq=False, slots=True, kw_only=True)
class Preparation:
    driver: Driver
    client: ApiClient
    checkpoint: Checkpoint
    injection: Injection
    metadata: MetadataFiles | None
    statuses: DeviceStatuses
    lock: DriverLock | None
    metrics: DriverMetrics
    _claims: ClaimLocks = field(init=False, default_factory=ClaimLocks)
    _traced: dict[str, str] = field(init=False, default_factory=dict)
    """The last failure of each claim that was logged with its stack."""

    async def prepare(self, references: Iterable[ClaimReference]) -> Mapping[str, Outcome]:
        """An outcome for each claim, by uid."""
        return await self._each(references, "NodePrepareResources", self._prepare)

    async def unprepare(self, references: Iterable[ClaimReference]) -> Mapping[str, Outcome]:
        return await self._each(references, "NodeUnprepareResources", self._unprepare)

    async def _prepare(self, reference: ClaimReference) -> Outcome:
        async with self._claims.preparing(reference.uid):
            document = await look_up(self.client, reference)
            devices = devices_for(self.driver, reference, document)
            await self._release_stale_holders(reference, devices)
            async with self._alone(reference.uid):
                return await self._prepare_alone(reference, devices, document)

    async def _prepare_alone(
        self, reference: ClaimReference, devices: tuple[AllocatedDevice, ...], document: Object
    ) -> Outcome:
        for record, (pool, device) in self._holders(reference, devices):
            raise ClaimFailed(f"device {pool}/{device} is still prepared for claim {record.reference}")
        before = self.checkpoint.read(reference.uid)
        state = before.state if before else None
        attempt = self.checkpoint.begin(reference, devices, uuid.uuid4().hex, state)
        claim = Claim(reference, devices, document, before.claim() if before else None, self._recorder(attempt))
        prepared = await awaited(self.driver.prepare(claim), f"{type(self.driver).__name__}.prepare")
        if not isinstance(prepared, Prepared):
            raise ClaimFailed(f"prepare of driver {self.driver.name} returned {prepared!r}, expected Prepared")
        answers = self._commit(attempt, claim, prepared)
        if answers is None:
            await self.driver.unprepare(msgspec.structs.replace(attempt, state=prepared.state).claim())
            raise ClaimFailed(f"claim {reference} was unprepared while it was being prepared")
        self._count()
        await self.statuses.apply_prepared(claim, prepared)
        return Outcome(devices=answers)

    def _commit(self, attempt: Record, claim: Claim, prepared: Prepared) -> list[AnsweredDevice] | None:
        """Writes files and the complete record in one go; None if the claim was unprepared meanwhile."""
        with self.checkpoint.exclusive():
            current = self.checkpoint.read(claim.uid)
            if current is None:
                return None
            _check_attempt(current, attempt)
            # Recorded before the files are written: what fails from here on is undone with this state.
            current = msgspec.structs.replace(current, state=prepared.state)
            try:
                answers = self.injection.write(claim, prepared)
            except BaseException:
                self.checkpoint.write(current)
                raise
            if self.metadata is not None:
                self.metadata.write(claim, prepared, answers)
            self.checkpoint.write(msgspec.structs.replace(current, is_complete=True))
            return answers

    def _recorder(self, attempt: Record) -> Callable[[Any], Awaitable[None]]:
        async def record(state: Any) -> None:
            with self.checkpoint.exclusive():
                current = self.checkpoint.read(attempt.uid)
                if current is None:
                    raise ClaimFailed(f"claim {attempt.reference} was unprepared while it was being prepared")
                _check_attempt(current, attempt)
                self.checkpoint.write(msgspec.structs.replace(current, state=state), named=True)

        return record

    async def _unprepare(self, reference: ClaimReference) -> Outcome:
        self._claims.interrupt(reference.uid)
        async with self._alone(reference.uid):
            record = self.checkpoint.read(reference.uid)
            if record is not None:
                await self.driver.unprepare(record.claim())
            with self.checkpoint.exclusive():
                self.injection.remove(reference.uid)
                if self.metadata is not None:
                    self.metadata.remove(reference)
                self.checkpoint.remove(reference.uid)
            self._count()
            return Outcome()

    async def _release_stale_holders(self, reference: ClaimReference, devices: tuple[AllocatedDevice, ...]) -> None:
        """Unprepares claims that hold one of the devices by their record, but not by their allocation any more.

        The kubelet does so in time, unless it has lost its own record of them.
        """
        for record, device in self._holders(reference, devices):
            if not await still_holds(self.client, self.driver.name, record.reference, device):
                _logger.warning("claim %s is gone and still holds %s: it is unprepared", record.reference, device)
                await self._unprepare(record.reference)

    def _holders(
        self, reference: ClaimReference, devices: tuple[AllocatedDevice, ...]
    ) -> list[tuple[Record, tuple[str, str]]]:
        """Records of other claims that have one of these devices for themselves."""
        wanted = {(device.pool, device.device) for device in devices if device.is_exclusive}
        return [
            (record, (held.pool, held.device))
            for record in self.checkpoint.readable()
            if record.uid != reference.uid
            for held in record.claim().devices
            if held.is_exclusive and (held.pool, held.device) in wanted
        ]

    @asynccontextmanager
    async def _alone(self, uid: str) -> AsyncIterator[None]:
        """First the claim, then the driver: who waits for a claim holds up no other."""
        async with self._claims.held(uid):
            if self.lock is None:
                yield
            else:
                async with self.lock.held():
                    yield

    def _count(self) -> None:
        self.metrics.claims(len(self.checkpoint.uids()))

    async def _each(
        self,
        references: Iterable[ClaimReference],
        method: str,
        work: Callable[[ClaimReference], Awaitable[Outcome]],
    ) -> dict[str, Outcome]:
        """Handles each claim in its own task, so that a claim that fails does not affect the others."""

        async def attempt(reference: ClaimReference) -> Outcome:
            with self.metrics.operation(method):
                return await work(reference)

        by_uid = {reference.uid: reference for reference in references}
        tasks = [asyncio.create_task(attempt(request), name=f"{method} {request}") for request in by_uid.values()]
        # When the kubelet gives up this is cancelled, and the tasks with it.
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return {
            uid: each if isinstance(each, Outcome) else Outcome(error=self._failure(method, by_uid[uid], each))
            for uid, each in zip(by_uid, results, strict=True)
        }

    def _failure(self, method: str, reference: ClaimReference, error: BaseException) -> str:
        """Logs a failure and returns the text for the kubelet. The stack of a repeated failure is logged once."""
        if isinstance(error, asyncio.CancelledError):
            return f"claim {reference} was unprepared while it was being prepared"
        if isinstance(error, DriverError):
            _logger.warning("%s: %s", method, error)
            return str(error)
        text = f"claim {reference}: {type(error).__name__}: {error}"
        if self._traced.get(reference.uid) == text:
            _logger.error("%s: %s", method, text)
        else:
            if len(self._traced) >= _MOST_TRACED:
                self._traced.clear()
            self._traced[reference.uid] = text
            _logger.error("%s of claim %s failed", method, reference, exc_info=error)
        return text


def _check_attempt(current: Record, attempt: Record) -> None:
    if current.attempt != attempt.attempt:
        raise ClaimFailed(f"claim {attempt.reference} is being prepared by another call that began later")
