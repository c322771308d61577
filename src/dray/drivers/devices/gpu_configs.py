"""Opaque configuration of `gpu.nvidia.com` (resource.nvidia.com/v1beta1): how containers of a claim share a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import msgspec

from dray.api.quantity import Quantity, QuantityError
from dray.driver import Config

_LEAST: int = 2**20
_UUIDS: Final = ("GPU-", "MIG-")
Amount = str | int | float
"""A quantity of the API: a text such as `15Gi`, or a number."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    pass


INTERVALS: Final = ("Default", "Short", "Medium", "Long")
"""Names of time-slice intervals; nvidia-smi takes their index."""


class TimeSlicingConfig(_Part, frozen=True):
    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class MpsConfig(_Part, frozen=True):
    default_active_thread_percentage: int | None = None
    default_pinned_device_memory_limit: Amount | None = None
    default_per_device_pinned_memory_limit: dict[str, Amount] = msgspec.field(default_factory=dict)
    multi_user: bool = False

    def validate(self) -> None:
        percentage = self.default_active_thread_percentage
        if percentage is not None and not 0 <= percentage <= 100:
            raise ValueError(f"defaultActiveThreadPercentage is {percentage}; give a number from 0 to 100")
        limits = [self.default_pinned_device_memory_limit, *self.default_per_device_pinned_memory_limit.values()]
        for limit in limits:
            if limit is not None and _bytes(limit) < _LEAST:
                raise ValueError(f"the limit of pinned memory is {limit}; give at least 1Mi")
        for key in self.default_per_device_pinned_memory_limit:
            if not (key.isascii() and key.isdecimal()) and not key.startswith(_UUIDS):
                raise ValueError(
                    f"defaultPerDevicePinnedMemoryLimit has {key!r}: give the UUID of a device (GPU-… or MIG-…), or "
                    "its number in the claim, from 0"
                )

    def pinned_memory_limits(self, uuids: Sequence[str]) -> dict[str, str]:
        """Returns the memory limit of each device that has one, in whole MiB as the MPS control daemon takes it:
        `15360M`.

        Raises ValueError for a limit of a device that the claim does not have.
        """
        default = self.default_pinned_device_memory_limit
        limits = {} if default is None else dict.fromkeys(uuids, default)
        for key, limit in self.default_per_device_pinned_memory_limit.items():
            if key in uuids:
                limits[key] = limit
            elif key.isdecimal() and int(key) < len(uuids):
                limits[uuids[int(key)]] = limit
            else:
                raise ValueError(
                    f"defaultPerDevicePinnedMemoryLimit has {key!r}, and the claim has no such device: give a UUID "
                    f"of {', '.join(uuids)}, or a number from 0 to {len(uuids) - 1}"
                )
        return {uuid: f"{_bytes(limits[uuid]) // _LEAST}M" for uuid in uuids if uuid in limits}


class Sharing(_Part, frozen=True):
    strategy: Literal["TimeSlicing", "MPS"]
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None

    def validate(self) -> None:
        if self.strategy == "MPS" and self.time_slicing_config is not None:
            raise ValueError("timeSlicingConfig belongs to the strategy TimeSlicing; remove it")
        if self.strategy == "TimeSlicing" and self.mps_config is not None:
            raise ValueError("mpsConfig belongs to the strategy MPS; remove it")
        if self.mps_config is not None:
            self.mps_config.validate()

    def __str__(self) -> str:
        """In short, for messages."""
        if self.strategy == "MPS":
            return f"MPS {msgspec.json.encode(self.mps_config or MpsConfig()).decode()}"
        return f"TimeSlicing {self.interval}"

    @property
    def interval(self) -> str:
        return (self.time_slicing_config or TimeSlicingConfig()).interval


class GpuConfig(Config, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "resource.nvidia.com/v1beta1"
    sharing: Sharing | None = None

    def validate(self) -> None:
        if self.sharing is not None:
            self.sharing.validate()


class MigDeviceConfig(GpuConfig, frozen=True, kw_only=True):
    def validate(self) -> None:
        super().validate()
        if self.sharing is not None and self.sharing.time_slicing_config is not None:
            raise ValueError("partitions have no timeSlicingConfig; remove it")


class VfioDeviceConfig(Config, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "resource.nvidia.com/v1beta1"
    refusal: ClassVar[str] = (
        "this driver does not pass GPUs through to virtual machines (PassthroughSupport), and publishes no devices of "
        "type vfio; NVIDIA's own driver does"
    )


CONFIGS: Final = (GpuConfig, MigDeviceConfig, VfioDeviceConfig)


def _bytes(amount: Amount) -> int:
    try:
        return Quantity.parse(str(amount)).value()
    except QuantityError as error:
        raise ValueError(str(error)) from None
