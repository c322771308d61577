"""Recovery: the machine is brought to what the records of claims say, after the driver or a daemon has died.

Partitions and daemons that belong to no claim are cleaned up as if a claim had just been released, so that one that
cannot be destroyed taints its GPU and is tried again. A record that cannot be read may hold anything: while there is
one, nothing that seems to belong to nobody is destroyed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from dray.driver import DriverError, RecordedClaims
from dray.drivers.gpu.claim_state import ClaimState, MpsState, PartitionState, RecordedState, recorded_states
from dray.drivers.gpu.clean_ups import CleanUps, GpuLocks
from dray.drivers.gpu.discovery import FoundGpu
from dray.drivers.gpu.machine_changes import MachineChanges
from dray.drivers.gpu.mps import claim_of
from dray.drivers.gpu.threads import in_thread
from dray.node.runtimes.cancelling import finished

_logger = logging.getLogger(__name__)


class Recovery:
    def __init__(
        self,
        changes: MachineChanges,
        clean_ups: CleanUps,
        locks: GpuLocks,
        recorded_claims: Callable[[], RecordedClaims],
    ) -> None:
        self._changes = changes
        self._clean_ups = clean_ups
        self._locks = locks
        self._recorded_claims = recorded_claims
        self._swept: set[str] = set()
        self._unlisted: set[str] = set()
        self._told: set[str] = set()

    async def sweep(self, cut: Iterable[FoundGpu]) -> None:
        """Destroys partitions of no claim on GPUs whose partitions are made for claims, once for each GPU."""
        waiting = [gpu for gpu in cut if gpu.gpu.uuid not in self._swept]
        if not waiting:
            return
        records = await asyncio.to_thread(self._recorded_claims)
        if records.unreadable:
            named = ", ".join(records.unreadable)
            self._tell_once(named, "records of claims %s cannot be read: nothing is cleaned up", named)
            return
        for found in waiting:
            uuid, name = found.gpu.uuid, found.gpu.name
            try:
                async with self._locks.held([uuid]):
                    unknown = await finished(in_thread(self._unknown, found))
            except (DriverError, OSError) as error:
                self._unlisted.add(uuid)
                self._tell_once(uuid, "%s: its partitions cannot be listed: %s", name, error)
                continue
            self._unlisted.discard(uuid)
            self._swept.add(uuid)
            self._told.discard(uuid)
            for instance in unknown:
                uid = f"{uuid}-{instance.profile_id}-{instance.start}"
                rest = await self._clean_ups.release(
                    uid, f"no claim ({instance.device})", ClaimState(partitions=(instance,))
                )
                if rest.is_clean and not instance.is_destroyed:
                    _logger.warning("%s: destroyed %s, which belonged to no claim", name, instance.device)

    def is_listed(self, found: FoundGpu) -> bool:
        """Returns False if the GPU may have partitions of no claim that could not be listed yet."""
        return found.gpu.uuid not in self._unlisted

    def _unknown(self, found: FoundGpu) -> list[PartitionState]:
        """Partitions of the GPU that no record has; a MIG mode that nobody needs counts as a partition destroyed."""
        uuid, keeps_mode = found.gpu.uuid, found.gpu.model.keeps_mig_mode
        instances = self._changes.partitions.listed(uuid)
        if instances is None:
            return []
        states = recorded_states(self._recorded_claims().claims)
        known = [partition for other in states for partition in other.state.partitions if partition.gpu == uuid]
        if not instances and not known and not keeps_mode:
            return [PartitionState(found.gpu.name, uuid, 0, 0, 0, is_destroyed=True)]
        places = {(instance.profile_id, instance.start) for instance in known}
        return [
            PartitionState(
                f"GPU instance {instance.id} of profile {instance.profile_id} at {instance.start}",
                uuid,
                instance.profile_id,
                instance.start,
                instance.size,
                keeps_mode,
            )
            for instance in instances
            if (instance.profile_id, instance.start) not in places
        ]

    async def supervise(self) -> None:
        """Daemons of claims run, and no others. In a rolling update the other driver may be stopping one just now:
        if it is started again here, it is found to belong to nobody the next time."""
        records = await asyncio.to_thread(self._recorded_claims)
        states = recorded_states(records.claims)
        if not records.unreadable:
            await self._stop_daemons({state.reference.uid for state in states} | self._clean_ups.released)
        await asyncio.gather(*(self._restart_daemons(state) for state in states if self._should_run(state)))

    def _should_run(self, state: RecordedState) -> bool:
        return state.is_complete and state.reference.uid not in self._clean_ups.released

    async def _restart_daemons(self, state: RecordedState) -> None:
        """Clients of a daemon that died have lost their work, and can start anew."""
        for daemon in state.state.mps:
            if await asyncio.to_thread(self._changes.mps.is_running, daemon.id):
                self._told.discard(daemon.id)
                continue
            async with self._locks.held(state.state.gpus):
                await finished(in_thread(self._restart, state, daemon))

    def _restart(self, state: RecordedState, daemon: MpsState) -> None:
        current = recorded_states(self._recorded_claims().claims)
        is_wanted = any(self._should_run(record) and daemon in record.state.mps for record in current)
        if not is_wanted or self._changes.mps.is_running(daemon.id):
            return
        if daemon.id not in self._told:
            _logger.warning("the MPS daemon of claim %s has died: it is started again", state.reference)
        try:
            self._changes.mps.start(daemon)
        except (DriverError, OSError) as error:
            self._tell_once(daemon.id, "the MPS daemon of claim %s cannot be started: %s", state.reference, error)

    async def _stop_daemons(self, claims: set[str]) -> None:
        for daemon_id in await asyncio.to_thread(self._changes.mps.ids):
            if claim_of(daemon_id) in claims or daemon_id in claims:
                continue
            gpus = await asyncio.to_thread(self._changes.mps.gpus_of, daemon_id)
            state = ClaimState(mps=(MpsState(id=daemon_id, devices=gpus, gpus=gpus),))
            await self._clean_ups.release(daemon_id, f"MPS daemon {daemon_id}, which belongs to no claim", state)

    def _tell_once(self, cause: str, message: str, *arguments: object) -> None:
        if cause not in self._told:
            self._told.add(cause)
            _logger.error(message, *arguments)


def cut_gpus(gpus: Sequence[FoundGpu]) -> list[FoundGpu]:
    """Returns the GPUs whose partitions are created for claims."""
    return [gpu for gpu in gpus if gpu.is_cut]
