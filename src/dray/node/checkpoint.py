"""The checkpoint of the claim cache: a file with a checksum, in the form of a kubelet's `dra_manager_state`.

    {"Data": "<a JSON document as text>", "Checksum": <CRC-32 of that text>}

A missing file is an empty state. A file that cannot be read, or whose checksum is wrong, is an error and not an empty
state: the devices of running pods would be handed out again. A symbolic link is such an error too: where it leads to
nothing, the state would be lost.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from dray.driver.claims import ClaimReference
from dray.driver.files import replace_file
from dray.node.devices import PreparedDevice
from dray.node.errors import CheckpointError
from dray.process.beneath import read_regular

FILE_NAME: Final = "dra_manager_state"
_KIND: Final = "DRACheckpoint"
_API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
# About a hundred thousand claims.
_LARGEST: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class DriverState:
    devices: tuple[PreparedDevice, ...] = ()
    skipped_operations: tuple[str, ...] = ()
    admin_devices: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The saved state of one claim."""

    reference: ClaimReference
    pods: frozenset[str]
    drivers: Mapping[str, DriverState]


class _Device(msgspec.Struct):
    PoolName: str
    DeviceName: str
    ShareID: str | None = None
    RequestNames: list[str] | None = None
    CDIDeviceIDs: list[str] | None = None


class _Driver(msgspec.Struct, omit_defaults=True):
    Devices: list[_Device] | None = msgspec.field(default=None)
    skipNodeOperations: list[str] = []
    # A kubelet has no such field, and leaves it alone.
    adminDevices: list[tuple[str, str]] = []


class _Claim(msgspec.Struct):
    ClaimUID: str
    ClaimName: str
    Namespace: str
    PodUIDs: dict[str, dict[str, str]] | None
    DriverState: dict[str, _Driver] | None


class _Data(msgspec.Struct):
    kind: str
    apiVersion: str
    ClaimInfoStateList: list[_Claim] | None


class _File(msgspec.Struct):
    Data: str
    Checksum: int


_decode_file: Final = msgspec.json.Decoder(_File).decode
_decode_data: Final = msgspec.json.Decoder(_Data).decode


class Checkpoint:
    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> list[ClaimState]:
        try:
            return decode(read_regular(self._path, _LARGEST))
        except FileNotFoundError:
            self.save([])
            return []
        except OSError as error:
            problem = f"cannot be read ({error.strerror or error})"
        except (ValueError, RecursionError) as error:
            problem = f"is corrupt ({error})"
        raise CheckpointError(f"checkpoint {self._path} {problem}: drain this node, remove the file and start again")

    def save(self, claims: Iterable[ClaimState]) -> None:
        try:
            replace_file(self._path, encode(claims), durable=True)
        except OSError as error:
            raise CheckpointError(f"cannot write checkpoint {self._path}: {error.strerror or error}") from None


def encode(claims: Iterable[ClaimState]) -> bytes:
    data = msgspec.json.encode(_Data(_KIND, _API_VERSION, [_written(claim) for claim in claims]))
    return msgspec.json.encode(_File(data.decode(), zlib.crc32(data)))


def decode(content: bytes) -> list[ClaimState]:
    """Decodes a checkpoint. Raises ValueError, and RecursionError for a document that is nested too deeply."""
    file = _decode_file(content)
    if zlib.crc32(file.Data.encode()) != file.Checksum:
        raise ValueError("its checksum is wrong")
    data = _decode_data(file.Data)
    if (data.kind, data.apiVersion) != (_KIND, _API_VERSION):
        raise ValueError(f"it is {data.kind} {data.apiVersion}, not {_KIND} {_API_VERSION}")
    return [_read(claim) for claim in data.ClaimInfoStateList or ()]


def _written(claim: ClaimState) -> _Claim:
    drivers = {
        name: _Driver(
            [_device(device) for device in state.devices], list(state.skipped_operations), sorted(state.admin_devices)
        )
        for name, state in claim.drivers.items()
    }
    pods: dict[str, dict[str, str]] = {uid: {} for uid in sorted(claim.pods)}
    return _Claim(claim.reference.uid, claim.reference.name, claim.reference.namespace, pods, drivers)


def _device(device: PreparedDevice) -> _Device:
    requests, ids = list(device.requests) or None, list(device.cdi_ids) or None
    return _Device(device.pool, device.device, device.share_id, requests, ids)


def _read(claim: _Claim) -> ClaimState:
    drivers = {
        name: DriverState(
            tuple(
                PreparedDevice(
                    device.PoolName,
                    device.DeviceName,
                    tuple(device.RequestNames or ()),
                    tuple(device.CDIDeviceIDs or ()),
                    device.ShareID,
                )
                for device in state.Devices or ()
            ),
            tuple(state.skipNodeOperations),
            frozenset(state.adminDevices),
        )
        for name, state in (claim.DriverState or {}).items()
    }
    reference = ClaimReference(claim.Namespace, claim.ClaimName, claim.ClaimUID)
    return ClaimState(reference, frozenset(claim.PodUIDs or {}), drivers)
