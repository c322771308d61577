"""Which chips a claim has, and what its containers are told of them. Shared by the driver and its simulation."""

from __future__ import annotations

from collections.abc import Sequence

from dray.driver import AllocatedDevice, ClaimFailed
from dray.drivers.devices.tpu import SLICE_DEVICE, TpuHost, TpuMode, chips_of
from dray.drivers.devices.tpu_environment import environment
from dray.drivers.devices.tpu_topology import is_block


def claimed_chips(host: TpuHost, mode: TpuMode, devices: Sequence[AllocatedDevice]) -> dict[AllocatedDevice, list[int]]:
    """The numbers of the chips behind each device. Raises ClaimFailed where the claim cannot work with them."""
    found: dict[AllocatedDevice, list[int]] = {}
    for device in devices:
        try:
            found[device] = list(chips_of(host, device.device))
        except KeyError:
            raise ClaimFailed(
                f"there is no device {device.device} on this machine; it may have been replaced, or its mode changed"
            ) from None
        if device.device == SLICE_DEVICE and mode != "slice":
            raise ClaimFailed(
                f"pool {device.pool} is a slice over several machines, and this one gives its chips away by itself; "
                "run its driver with mode=slice"
            )
    _check(host, mode, sorted({number for numbers in found.values() for number in numbers}))
    return found


def _check(host: TpuHost, mode: TpuMode, numbers: list[int]) -> None:
    if len(numbers) == len(host.chips):
        return
    if mode != "partitions":
        raise ClaimFailed(
            f"the claim has {len(numbers)} of {len(host.chips)} chips: a TPU claim takes all chips of a machine; "
            "write allocationMode: All, or run the driver with mode=partitions"
        )
    if not is_block(numbers):
        raise ClaimFailed(
            f"chips {', '.join(map(str, numbers))} are not a block of neighbours; ask for one device of class "
            "slice.tpu.google.com with the topology you need, or for a single chip"
        )


def told(host: TpuHost, chips: dict[AllocatedDevice, list[int]], claim_uid: str) -> dict[str, str]:
    """The variables of every container of the claim."""
    numbers = sorted({number for chip in chips.values() for number in chip})
    marks = {f"TPU_DEVICE_{host.chips[number].name}_RESOURCE_CLAIM": claim_uid for number in numbers}
    return environment(host, numbers) | marks
