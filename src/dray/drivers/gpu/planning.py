"""What is to be done on the machine for a claim, from what it wants: the state that goes into its record. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dray.driver import ClaimFailed
from dray.drivers.devices.gpu_configs import INTERVALS, MpsConfig, Sharing
from dray.drivers.gpu.claim_state import ClaimState, MpsState, PartitionState, TimeSlicedGpu
from dray.drivers.gpu.mps import mps_id
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.sharing import Wanted, described


def planned_state(claim_uid: str, wanted: Sequence[Wanted], options: GpuOptions) -> ClaimState:
    """Nothing is done for devices that the claim only looks at."""
    own = [device for device in wanted if not device.allocated.admin_access]
    whole = [device for device in own if device.partition is None]
    return ClaimState(
        sharing={device.found.gpu.uuid: described(device.sharing) for device in whole},
        time_sliced=_time_sliced(whole) if options.time_slicing_settings else (),
        mps=tuple(_daemons(claim_uid, own)),
        partitions=tuple(_partition(device) for device in own if device.is_dynamic),
    )


def _time_sliced(whole: Sequence[Wanted]) -> tuple[TimeSlicedGpu, ...]:
    """Partitions have no time slices to set."""
    found = {
        device.found.gpu.uuid: INTERVALS.index(device.sharing.interval)
        for device in whole
        if device.sharing is not None and device.sharing.strategy == "TimeSlicing"
    }
    return tuple(TimeSlicedGpu(uuid, interval) for uuid, interval in found.items())


def _daemons(claim_uid: str, own: Sequence[Wanted]) -> list[MpsState]:
    """One for all devices that are shared alike."""
    groups: dict[str, tuple[Sharing, list[Wanted]]] = {}
    for device in own:
        if device.sharing is not None and device.sharing.strategy == "MPS":
            groups.setdefault(str(device.sharing), (device.sharing, []))[1].append(device)
    return [_daemon(claim_uid, sharing.mps_config or MpsConfig(), members) for sharing, members in groups.values()]


def _daemon(claim_uid: str, config: MpsConfig, members: Sequence[Wanted]) -> MpsState:
    uuids = [device_uuid(member) for member in members]
    try:
        limits = config.pinned_memory_limits(uuids)
    except ValueError as error:
        raise ClaimFailed(f"GpuConfig of claim {claim_uid}: {error}") from None
    return MpsState(
        id=mps_id(claim_uid, uuids),
        devices=tuple(uuids),
        gpus=tuple(member.found.gpu.uuid for member in members if member.partition is None),
        thread_percentage=config.default_active_thread_percentage,
        memory_limits=limits,
        multi_user=config.multi_user,
    )


def device_uuid(wanted: Wanted) -> str:
    return wanted.partition.uuid if wanted.partition is not None else wanted.found.gpu.uuid


def _partition(wanted: Wanted) -> PartitionState:
    partition, gpu = wanted.partition, wanted.found.gpu
    assert partition is not None
    return PartitionState(
        device=wanted.allocated.device,
        gpu=gpu.uuid,
        profile_id=partition.profile.id,
        start=partition.start,
        size=partition.profile.slices(),
        keeps_mode=gpu.model.keeps_mig_mode,
    )
