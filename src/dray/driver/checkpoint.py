"""Checkpoint: the records of claims on disk, one file each, `<driver directory>/claims/<claim uid>.json`.

A record is written before a device is touched (begun), and again when the claim is prepared (complete); it is removed
when the claim is unprepared. A first record and a state that the driver records are durable when the call returns; of
later writes a loss of power may leave the one before, and of a removal nothing. A file holds the record under the name
of its version, with a CRC-32 of it, so that a newer format can stand beside the one an older release reads. A file
that cannot be read fails its own claim and no other, and is named in the log when the driver starts. Two instances of
a driver share the directory in a rolling update: nothing is cached, and `attempt` tells whose record it is.

A machine that was started anew has none of what was prepared on it, so a record from before is not complete.
"""

from __future__ import annotations

import fcntl
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from dray.driver.claims import AllocatedDevice, ClaimReference, PreparedClaim, RecordedClaims
from dray.driver.errors import CheckpointCorrupt, ClaimFailed, DriverError
from dray.driver.files import remove_file, replace_file
from dray.process.beneath import read_regular

_VERSION: Final = "v1"
_SUFFIX: Final = ".json"
_LARGEST: Final = 16 << 20
_logger = logging.getLogger(__name__)


class RecordedDevice(msgspec.Struct, frozen=True, rename="camel"):
    pool: str
    device: str
    request: str
    share_id: str = ""
    admin_access: bool = False
    consumed_capacity: dict[str, str] = {}


class Record(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`attempt` is new each time prepare begins; `state` is the driver's."""

    namespace: str
    name: str
    uid: str
    attempt: str
    devices: tuple[RecordedDevice, ...]
    boot_id: str = ""
    is_complete: bool = False
    state: Any = None

    @property
    def reference(self) -> ClaimReference:
        return ClaimReference(self.namespace, self.name, self.uid)

    def claim(self) -> PreparedClaim:
        devices = tuple(
            AllocatedDevice(
                device.pool,
                device.device,
                device.request,
                device.share_id,
                device.admin_access,
                device.consumed_capacity,
            )
            for device in self.devices
        )
        return PreparedClaim(self.reference, devices, self.state, self.is_complete)


class _Stored(msgspec.Struct):
    data: str
    checksum: int


class Checkpoint:
    def __init__(self, directory: Path, boot_id: str) -> None:
        self._directory = directory
        self._boot_id = boot_id

    def open(self) -> None:
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise DriverError(f"{self._directory} is not a directory: the records of claims belong there") from None
        # What a crash left of an unfinished write.
        for path in self._directory.glob(".*.tmp"):
            with suppress(IsADirectoryError):
                remove_file(path)
        for uid in self.recorded_claims().unreadable:
            try:
                self.read(uid)
            except CheckpointCorrupt as error:
                _logger.error("claim %s: %s", uid, error)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keeps the other instance of a rolling update out while a record is compared and changed."""
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def begin(self, claim: ClaimReference, devices: tuple[AllocatedDevice, ...], attempt: str, state: Any) -> Record:
        recorded = tuple(
            RecordedDevice(
                device.pool,
                device.device,
                device.request,
                device.share_id,
                device.admin_access,
                dict(device.consumed_capacity),
            )
            for device in devices
        )
        record = Record(
            namespace=claim.namespace,
            name=claim.name,
            uid=claim.uid,
            attempt=attempt,
            devices=recorded,
            boot_id=self._boot_id,
            state=state,
        )
        self.write(record, named=not self._path(claim.uid).exists())
        return record

    def write(self, record: Record, *, named: bool = False) -> None:
        """With `named` it is this one that a loss of power leaves; else it may be the one before."""
        try:
            data = msgspec.json.encode(record).decode()
        except (TypeError, ValueError) as error:
            raise ClaimFailed(f"the state of claim {record.reference} cannot be written as JSON: {error}") from error
        stored = {_VERSION: _Stored(data, zlib.crc32(data.encode()))}
        replace_file(self._path(record.uid), msgspec.json.encode(stored), durable=True, named=named)

    def read(self, uid: str) -> Record | None:
        """Returns the claim's record, None if there is none. Raises CheckpointCorrupt."""
        path = self._path(uid)
        try:
            record = _decoded(read_regular(path, _LARGEST))
            if record.uid != uid:
                raise ValueError(f"it is that of claim {record.uid}")
        except FileNotFoundError:
            return None
        except (OSError, KeyError, ValueError, RecursionError) as error:
            raise CheckpointCorrupt(
                f"the record {path} cannot be read ({type(error).__name__}: {error}): "
                "see that the claim's devices are free of what was prepared, then remove the file"
            ) from error
        if record.boot_id != self._boot_id:
            return msgspec.structs.replace(record, is_complete=False)
        return record

    def remove(self, uid: str) -> None:
        remove_file(self._path(uid))

    def uids(self) -> list[str]:
        names = os.listdir(self._directory)
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX) and name[0] != ".")

    def readable(self) -> Iterator[Record]:
        return (record for record in self._all() if isinstance(record, Record))

    def recorded_claims(self) -> RecordedClaims:
        found = list(self._all())
        claims = tuple(record.claim() for record in found if isinstance(record, Record))
        return RecordedClaims(claims, tuple(record for record in found if isinstance(record, str)))

    def _all(self) -> Iterator[Record | str]:
        """Records, and the uids of those that cannot be read."""
        for uid in self.uids():
            try:
                record = self.read(uid)
            except CheckpointCorrupt:
                yield uid
                continue
            if record is not None:
                yield record

    def _path(self, uid: str) -> Path:
        if not uid or "/" in uid or uid[0] == ".":
            raise ClaimFailed(f"{uid!r} is not the uid of a claim")
        return self._directory / f"{uid}{_SUFFIX}"


def _decoded(content: bytes) -> Record:
    """Raises KeyError, ValueError, or RecursionError."""
    stored = msgspec.json.decode(content, type=dict[str, Any])
    known = msgspec.convert(stored[_VERSION], _Stored)
    if zlib.crc32(known.data.encode()) != known.checksum:
        raise ValueError("the checksum differs")
    return msgspec.json.decode(known.data, type=Record)
