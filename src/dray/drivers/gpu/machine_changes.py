"""Changes of the machine for a claim, as its state lists them: made, and taken back.

Both may be done again at any time, after either has failed or its process has died. What another claim still needs is
not taken back: two claims that share a GPU have the same time slices.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from dray.driver import ClaimFailed
from dray.drivers.gpu.claim_state import ClaimState, RecordedState
from dray.drivers.gpu.mps import MpsDaemons
from dray.drivers.gpu.nvml import NvmlError
from dray.drivers.gpu.nvml_mig import Part
from dray.drivers.gpu.partitions import Partitions
from dray.drivers.gpu.time_slices import TimeSlices

_logger = logging.getLogger(__name__)


class MachineChanges:
    def __init__(self, time_slices: TimeSlices, mps: MpsDaemons, partitions: Partitions) -> None:
        self.mps = mps
        self.partitions = partitions
        self._time_slices = time_slices

    def make(self, state: ClaimState) -> dict[str, Part]:
        """Gives the partitions, by device name."""
        made = {each.device: self.partitions.make(each) for each in state.partitions}
        for sliced in state.time_sliced:
            self._time_slices.set(sliced.uuid, sliced.interval)
        for daemon in state.mps:
            self.mps.start(daemon)
        return made

    def take_back(self, state: ClaimState, others: Iterable[RecordedState]) -> None:
        kept = {each.uuid for other in others for each in other.state.time_sliced}
        for daemon in state.mps:
            self.mps.stop(daemon.id, daemon.gpus)
        for sliced in state.time_sliced:
            if sliced.uuid not in kept:
                self._reset(sliced.uuid)
        for partition in state.partitions:
            self.partitions.destroy(partition)

    def _reset(self, uuid: str) -> None:
        try:
            self._time_slices.reset(uuid)
        except NvmlError as error:
            if not error.is_gone:
                raise
            _logger.warning("time slices of GPU %s are gone with it: %s", uuid, error)


def check_agreement(state: ClaimState, others: Iterable[RecordedState]) -> None:
    """Raises ClaimFailed where another claim has a GPU or a place on it otherwise than this one wants it."""
    for other in others:
        for uuid, wanted in state.sharing.items():
            has = other.state.sharing.get(uuid, wanted)
            if has != wanted:
                raise ClaimFailed(
                    f"GPU {uuid} is shared with claim {other.reference}, which has the sharing configuration {has}, "
                    f"and this claim has {wanted}: claims that share a GPU need the same"
                )
        # Of a claim that is not ready it is not known what is there; the GPU itself refuses what has no room.
        for partition in state.partitions if other.is_complete else ():
            if partition.gpu in other.state.sharing:
                raise ClaimFailed(f"device {partition.device} is part of a GPU that claim {other.reference} still has")
            for taken in other.state.partitions:
                if partition.overlaps(taken):
                    raise ClaimFailed(
                        f"device {partition.device} lies where {taken.device} of claim {other.reference} still is"
                    )
