"""The state of a claim in its record: all that is done on the machine for it, written before it is done.

From it everything can be undone, by another process and without the claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.driver import ClaimReference, PreparedClaim, RecordedClaims
from dray.driver.errors import CheckpointCorrupt


class TimeSlicedGpu(msgspec.Struct, frozen=True, rename="camel"):
    """`interval` is its number."""

    uuid: str
    interval: int


class MpsState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A control daemon: for which devices, and how it was told to limit clients. `gpus` are those that are whole."""

    id: str
    devices: tuple[str, ...]
    gpus: tuple[str, ...]
    thread_percentage: int | None = None
    memory_limits: dict[str, str] = {}
    multi_user: bool = False


class PartitionState(msgspec.Struct, frozen=True, rename="camel"):
    """A partition made for the claim: on which GPU, of which profile, and its memory slices.

    `keeps_mode` if the MIG mode of the GPU is not ours to switch off. `is_destroyed` if only the MIG mode is left.
    """

    device: str
    gpu: str
    profile_id: int
    start: int
    size: int
    keeps_mode: bool = False
    is_destroyed: bool = False

    def is_same(self, other: PartitionState) -> bool:
        """Whether both are the same GPU instance."""
        return (self.gpu, self.profile_id, self.start) == (other.gpu, other.profile_id, other.start)

    def overlaps(self, other: PartitionState) -> bool:
        return self.gpu == other.gpu and self.start < other.start + other.size and other.start < self.start + self.size


class ClaimState(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`sharing` says by UUID how each GPU of the claim is shared; what only looks at a GPU is not in it."""

    sharing: dict[str, str] = {}
    time_sliced: tuple[TimeSlicedGpu, ...] = ()
    mps: tuple[MpsState, ...] = ()
    partitions: tuple[PartitionState, ...] = ()

    @property
    def gpus(self) -> set[str]:
        """UUIDs of the GPUs, and of the partitions that exist, that are changed for the claim."""
        return {
            *self.sharing,
            *(slicing.uuid for slicing in self.time_sliced),
            *(uuid for daemon in self.mps for uuid in (*daemon.devices, *daemon.gpus)),
            *(partition.gpu for partition in self.partitions),
        }

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to undo."""
        return not (self.time_sliced or self.mps or self.partitions)

    def document(self) -> Any:
        return msgspec.to_builtins(self)


def state_of(recorded: Any) -> ClaimState:
    """Empty where nothing was done yet. Raises CheckpointCorrupt for a state of another form."""
    if recorded is None:
        return ClaimState()
    try:
        return msgspec.convert(recorded, ClaimState)
    except msgspec.ValidationError as error:
        raise CheckpointCorrupt(
            f"the state in the record of the claim is not understood ({error}): another version of the driver may have "
            "written it; run that one, or see that the claim's GPUs are free of what was prepared, then remove the "
            "record"
        ) from None


def understood(records: RecordedClaims) -> RecordedClaims:
    """Counts records as unreadable whose state is not understood."""
    strange = []
    for claim in records.claims:
        try:
            state_of(claim.state)
        except CheckpointCorrupt:
            strange.append(claim.reference.uid)
    if not strange:
        return records
    claims = tuple(claim for claim in records.claims if claim.reference.uid not in strange)
    return RecordedClaims(claims, (*records.unreadable, *strange))


@dataclass(frozen=True, slots=True)
class RecordedState:
    reference: ClaimReference
    is_complete: bool
    state: ClaimState


def recorded_states(claims: Iterable[PreparedClaim], *, but: str = "") -> list[RecordedState]:
    """Returns the recorded states of all claims except the one with uid `but`."""
    return [
        RecordedState(claim.reference, claim.is_complete, state_of(claim.state))
        for claim in claims
        if claim.reference.uid != but
    ]
