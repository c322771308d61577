"""Changes of the machine for a claim, as its state lists them: made, and taken back.

Both may be done again at any time, after either has failed or its process has died. What another claim still needs is
not taken back: two claims that share a GPU have the same time slices. Taking back does not stop at the first failure:
it does what it can, and returns the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from dray.driver import ClaimFailed, DriverError
from dray.drivers.gpu.claim_state import ClaimState, MpsState, PartitionState, RecordedState, TimeSlicedGpu
from dray.drivers.gpu.mps import MpsDaemons
from dray.drivers.gpu.nvml_mig import Part
from dray.drivers.gpu.partitions import Partitions
from dray.drivers.gpu.time_slices import TimeSlices


@dataclass(frozen=True, slots=True)
class Rest:
    """The changes that could not be taken back, and why."""

    state: ClaimState = field(default_factory=ClaimState)
    reason: str = ""


class MachineChanges:
    def __init__(self, time_slices: TimeSlices, mps: MpsDaemons, partitions: Partitions) -> None:
        self.mps = mps
        self.partitions = partitions
        self._time_slices = time_slices

    def make(self, state: ClaimState) -> dict[str, Part]:
        """Gives the partitions, by device name."""
        made = {partition.device: self.partitions.make(partition) for partition in state.partitions}
        for sliced in state.time_sliced:
            self._time_slices.set(sliced.uuid, sliced.interval)
        for daemon in state.mps:
            self.mps.start(daemon)
        return made

    def take_back(self, state: ClaimState, others: Sequence[RecordedState]) -> Rest:
        attempts = _Attempts()
        rest = ClaimState(
            mps=tuple(self._stopped(attempts, state.mps, others)),
            time_sliced=tuple(self._reset(attempts, state.time_sliced, others)),
            partitions=tuple(self._destroyed(attempts, state.partitions, others)),
        )
        return Rest(rest, "; ".join(dict.fromkeys(attempts.reasons)))

    def _stopped(
        self, attempts: _Attempts, daemons: Iterable[MpsState], others: Sequence[RecordedState]
    ) -> Iterable[MpsState]:
        kept = {uuid for other in others for daemon in other.state.mps for uuid in daemon.gpus}
        for daemon in daemons:
            is_stopped = attempts.succeeds(self.mps.stop, daemon.id)
            busy = [uuid for uuid in daemon.gpus if uuid not in kept and not attempts.succeeds(self.mps.free, uuid)]
            if busy or not is_stopped:
                yield msgspec.structs.replace(daemon, gpus=tuple(busy))

    def _reset(
        self, attempts: _Attempts, gpus: Iterable[TimeSlicedGpu], others: Sequence[RecordedState]
    ) -> Iterable[TimeSlicedGpu]:
        kept = {slicing.uuid for other in others for slicing in other.state.time_sliced}
        for sliced in gpus:
            if sliced.uuid not in kept and not attempts.succeeds(self._time_slices.reset, sliced.uuid):
                yield sliced

    def _destroyed(
        self, attempts: _Attempts, partitions: Iterable[PartitionState], others: Sequence[RecordedState]
    ) -> Iterable[PartitionState]:
        """The MIG mode goes with the last partition, where it can be switched without a reset."""
        kept = [partition for other in others for partition in other.state.partitions]
        for partition in partitions:
            # A claim that wants an overlapping one instead does not have it, as long as this one is there.
            is_gone = partition.is_destroyed or any(partition.is_same(other) for other in kept)
            if not is_gone and not attempts.succeeds(self.partitions.destroy, partition):
                yield partition
            elif not partition.keeps_mode and not attempts.succeeds(self.partitions.end_mode, partition.gpu):
                yield msgspec.structs.replace(partition, is_destroyed=True)


class _Attempts:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def succeeds(self, step: Callable[..., None], *arguments: object) -> bool:
        try:
            step(*arguments)
        except (DriverError, OSError) as error:
            self.reasons.append(str(error))
            return False
        except Exception as error:
            # Whatever it is, it must not keep the claim.
            self.reasons.append(f"{type(error).__name__}: {error}")
            return False
        return True


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
                # The same one is shared by capacity: the SDK refuses a second claim otherwise.
                if partition.overlaps(taken) and partition.device != taken.device:
                    raise ClaimFailed(
                        f"device {partition.device} lies where {taken.device} of claim {other.reference} still is"
                    )
