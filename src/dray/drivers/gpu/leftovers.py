"""Leftovers: what a released claim has left on the machine because it could not be undone, in a file for each claim.

The files are in `leftovers` of the driver's directory, so that a driver that is started again goes on with them. After
a restart of the machine nothing of them is left: modes, partitions and daemons do not survive it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

import msgspec

from dray.driver.files import remove_file, replace_file
from dray.drivers.gpu.claim_state import ClaimState, PartitionState
from dray.drivers.gpu.discovery import FoundGpu
from dray.process import beneath

_SUFFIX: Final = ".json"
_LARGEST: Final = 16 << 20
_logger = logging.getLogger(__name__)


class Leftover(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`about` names the claim, or whatever it was that nobody owns; `reason` is why it is still there."""

    uid: str
    about: str
    state: ClaimState
    reason: str = ""
    boot_id: str = ""

    def blocks(self, wanted: ClaimState) -> bool:
        """Whether a claim with this state must wait until the leftover is gone."""
        whole = set(wanted.sharing)
        if whole & {*(gpu.uuid for gpu in self.state.time_sliced), *self._exclusive()}:
            return True
        left = [partition for partition in self.state.partitions if not partition.is_destroyed]
        return any(
            partition.gpu in whole or any(partition.overlaps(other) for other in wanted.partitions)
            for partition in left
        )

    def problem(self, found: FoundGpu, device: str) -> str:
        """Returns what is left on this device, as the value of its taint; empty for nothing."""
        uuid, is_whole = found.gpu.uuid, device == found.gpu.name
        partition = found.partitions.get(device)
        if self._exclusive() & {uuid, partition.uuid if partition is not None else uuid}:
            return "mps"
        if any(gpu.uuid == uuid for gpu in self.state.time_sliced):
            return "time-slice"
        for made in self.state.partitions:
            if made.gpu != uuid:
                continue
            if made.is_destroyed:
                return "mig-mode"
            if not made.is_destroyed and (is_whole or _lies_on(found, device, made)):
                return "partition"
        return ""

    def hinders(self, found: FoundGpu, device: str) -> bool:
        """Whether the device cannot be used. A MIG mode that stays on hinders only the whole GPU."""
        return device == found.gpu.name or self.problem(found, device) != "mig-mode"

    def _exclusive(self) -> set[str]:
        return {uuid for daemon in self.state.mps for uuid in daemon.gpus or daemon.devices}


def _lies_on(found: FoundGpu, device: str, left: PartitionState) -> bool:
    partition = found.partitions.get(device)
    if partition is None:
        return False
    place = PartitionState(device, left.gpu, partition.profile.id, partition.start, partition.profile.slices())
    return place.overlaps(left)


class Leftovers:
    def __init__(self, directory: Path, boot_id: str) -> None:
        self._directory = directory / "leftovers"
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self.known: dict[str, Leftover] = {}
        """Leftovers by claim uid. Changes replace the whole dictionary because other threads read it."""

    def read(self) -> None:
        """Reads the files: the other instance of a rolling update may have written some."""
        with self._lock:
            found = [self._read(path) for path in sorted(self._directory.glob(f"*{_SUFFIX}"))]
            self.known = {leftover.uid: leftover for leftover in found if leftover is not None}

    def _read(self, path: Path) -> Leftover | None:
        try:
            leftover = msgspec.json.decode(beneath.read_regular(path, _LARGEST), type=Leftover)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            _logger.error("%s cannot be read, and is removed: %s", path, error)
            beneath.remove_tree(path)
            return None
        if leftover.boot_id != self._boot_id:
            remove_file(path)
            return None
        return leftover

    def put(self, leftover: Leftover) -> None:
        """Writes the leftover to disk, and returns when it is durable."""
        stored = msgspec.structs.replace(leftover, boot_id=self._boot_id)
        with self._lock:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            replace_file(self._path(leftover.uid), msgspec.json.encode(stored), durable=True)
            self.known = {**self.known, leftover.uid: stored}

    def remove(self, uid: str) -> None:
        with self._lock:
            remove_file(self._path(uid))
            self.known = {other: leftover for other, leftover in self.known.items() if other != uid}

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}{_SUFFIX}"
