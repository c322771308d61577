"""What a claim wants of its GPUs: which hardware is behind each device, and how containers share it.

A configuration that names requests must be for devices of their kind, a GpuConfig for GPUs and a MigDeviceConfig for
partitions; one for all requests counts for the devices it fits. Pure: machine and claim in, `Wanted` out, or
ClaimFailed with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dray.driver import AllocatedDevice, ClaimFailed
from dray.drivers.devices.gpu_configs import GpuConfig, MigDeviceConfig, Sharing
from dray.drivers.gpu.discovery import Found, FoundGpu, Partition
from dray.drivers.gpu.options import GpuOptions


@dataclass(frozen=True, slots=True)
class Wanted:
    """`sharing` is None where the claim leaves it open, and where it only looks at a device that others use."""

    allocated: AllocatedDevice
    found: FoundGpu
    partition: Partition | None
    sharing: Sharing | None

    @property
    def is_dynamic(self) -> bool:
        return self.partition is not None and self.found.is_cut


def wanted_devices(devices: Sequence[AllocatedDevice], found: Found, options: GpuOptions) -> list[Wanted]:
    wanted = [_wanted(device, found, options) for device in devices]
    _check_agreement(wanted)
    return wanted


def _wanted(allocated: AllocatedDevice, found: Found, options: GpuOptions) -> Wanted:
    behind = found.device(allocated.device)
    if behind is None:
        why = next(
            (line for line in found.left_out if line.startswith(f"{allocated.device} ")), "it may have been replaced"
        )
        raise ClaimFailed(f"there is no device {allocated.device} on this machine: {why}")
    gpu, partition = behind
    config = _config(allocated, partition is not None)
    sharing = None if config is None or allocated.admin_access else config.sharing
    wanted = Wanted(allocated, gpu, partition, sharing)
    if sharing is not None:
        _check(wanted, sharing, options)
    return wanted


def _config(allocated: AllocatedDevice, is_partition: bool) -> GpuConfig | None:
    """The last of its kind that counts; a MigDeviceConfig is a GpuConfig to Python, and not to the API."""
    kind = MigDeviceConfig if is_partition else GpuConfig
    for named in allocated.named_configs:
        if type(named) is not kind:
            raise ClaimFailed(
                f"request {allocated.request} has a {type(named).__name__}, and device {allocated.device} is "
                f"{'a partition, which takes a MigDeviceConfig' if is_partition else 'a GPU, which takes a GpuConfig'}"
            )
    fitting = (candidate for candidate in reversed(allocated.configs) if type(candidate) is kind)
    config = next(fitting, None)
    assert config is None or isinstance(config, GpuConfig)
    return config


def _check(wanted: Wanted, sharing: Sharing, options: GpuOptions) -> None:
    device = wanted.allocated.device
    if sharing.strategy == "TimeSlicing":
        if sharing.time_slicing_config is not None and not options.time_slicing_settings:
            raise ClaimFailed(
                f"device {device}: timeSlicingConfig needs the feature gate TimeSlicingSettings, which is off"
            )
        return
    if not options.mps_support:
        raise ClaimFailed(f"device {device}: the strategy MPS needs the feature gate MPSSupport, which is off")
    if wanted.is_dynamic:
        raise ClaimFailed(f"device {device}: the strategy MPS is not for partitions that are made for a claim")
    if wanted.allocated.share_id:
        raise ClaimFailed(
            f"device {device}: the strategy MPS is not for GPUs that several claims share by capacity; use TimeSlicing"
        )
    capability = wanted.found.gpu.model.compute_capability
    config = sharing.mps_config
    if config is not None and config.multi_user and int(capability.partition(".")[0] or 0) < 7:
        has = capability or "none that the driver states"
        raise ClaimFailed(f"device {device}: multiUser needs compute capability 7.0, and the GPU has {has}")


def _check_agreement(wanted: Sequence[Wanted]) -> None:
    """A GPU that is in a claim more than once, in shares, can be shared in one way only."""
    for device in wanted:
        for other in wanted:
            same = device.allocated.device == other.allocated.device and not device.allocated.admin_access
            if same and not other.allocated.admin_access and device.sharing != other.sharing:
                raise ClaimFailed(
                    f"requests {device.allocated.request} and {other.allocated.request} share device "
                    f"{device.allocated.device} with different configuration: {described(device.sharing)}, and "
                    f"{described(other.sharing)}"
                )


def described(sharing: Sharing | None) -> str:
    return "none" if sharing is None else str(sharing)


def published_gates(wanted: Sequence[Wanted]) -> list[str]:
    """The feature gates that the published driver, which has them off, needs for such configuration."""
    sharing = [device.sharing for device in wanted if device.sharing is not None]
    gates = {
        "MPSSupport": any(setting.strategy == "MPS" for setting in sharing),
        "TimeSlicingSettings": any(setting.time_slicing_config is not None for setting in sharing),
    }
    return [gate for gate, is_needed in gates.items() if is_needed]
