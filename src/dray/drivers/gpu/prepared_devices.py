"""The devices of a claim made ready, and what containers get of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dray.driver import ClaimFailed, ContainerEdits, DeviceMetadata, DeviceStatus, PreparedDevice
from dray.drivers.devices.visible_devices import visible_devices
from dray.drivers.gpu.capabilities import capability_nodes
from dray.drivers.gpu.claim_state import ClaimState
from dray.drivers.gpu.container_edits import GpuEdits
from dray.drivers.gpu.machine_changes import MachineChanges
from dray.drivers.gpu.mps import CONTAINER_PIPE, PIPE_DIRECTORY
from dray.drivers.gpu.nvml_mig import Part
from dray.drivers.gpu.planning import device_uuid
from dray.drivers.gpu.sharing import Wanted


class PreparedDevices:
    def __init__(self, changes: MachineChanges, edits: GpuEdits, proc: Path) -> None:
        self._changes = changes
        self._edits = edits
        self._proc = proc

    def make(self, wanted: Sequence[Wanted], state: ClaimState) -> list[PreparedDevice]:
        """Blocks; may be called again for the same claim."""
        for device in wanted:
            if device.partition is None and device.found.is_cut and not device.allocated.admin_access:
                self._changes.partitions.free_whole(device.found.gpu.uuid)
        parts = self._changes.make(state)
        return [self._device(device, state, parts) for device in wanted]

    def _device(self, wanted: Wanted, state: ClaimState, made: dict[str, Part]) -> PreparedDevice:
        gpu = wanted.found.gpu
        if wanted.partition is None:
            edits = self._edits.of(gpu.minor)
            named = {"uuid": gpu.uuid}
        else:
            part = made.get(wanted.allocated.device) or self._existing(wanted)
            edits = self._edits.of(gpu.minor, capability_nodes(self._proc, gpu.minor, part))
            named = {"uuid": part.uuid, "parentUUID": gpu.uuid}
        return PreparedDevice(
            wanted.allocated,
            self._with_daemon(edits, wanted, state),
            status=DeviceStatus(data=named),
            metadata=DeviceMetadata(named),
            annotations=visible_devices(named["uuid"]),
        )

    def _existing(self, wanted: Wanted) -> Part:
        partition = wanted.partition
        assert partition is not None
        part = self._changes.partitions.existing(wanted.found.gpu.uuid, partition.uuid)
        if part is None:
            raise ClaimFailed(f"the partition {wanted.allocated.device} does not exist any more")
        return part

    def _with_daemon(self, edits: ContainerEdits, wanted: Wanted, state: ClaimState) -> ContainerEdits:
        daemon = next((each for each in state.mps if device_uuid(wanted) in each.devices), None)
        if daemon is None or wanted.allocated.admin_access:
            return edits
        return msgspec.structs.replace(
            edits,
            env=(*edits.env, f"{PIPE_DIRECTORY}={CONTAINER_PIPE}"),
            mounts=(*edits.mounts, *self._changes.mps.mounts(daemon.id)),
        )
