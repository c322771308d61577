"""The settings of the GPU driver. Those that start with a capital are the feature gates of the published driver."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from dray.drivers.devices.gpu import Sharing


class GpuOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Options of the GPU driver: what it publishes, which configuration it accepts, and where files are."""

    time_slicing_settings: bool = msgspec.field(default=True, name="TimeSlicingSettings")
    mps_support: bool = msgspec.field(default=True, name="MPSSupport")
    dynamic_mig: bool = msgspec.field(default=False, name="DynamicMIG")
    """Partitions are made for claims, and those that belong to none are destroyed."""
    health_check: bool = msgspec.field(default=True, name="NVMLDeviceHealthCheck")
    consumable_shares: str = msgspec.field(default="disabled", name="ConsumableShares")
    """`disabled`, `memory`, `unlimited`, or how many claims may have one GPU or partition."""
    list_attributes: bool = msgspec.field(default=False, name="DRAListTypeAttributes")
    """`numaNode` is a list."""
    ignored_xids: str = ""
    """Numbers of XID errors that are the fault of applications, beside those known to be."""
    check_seconds: float = 5.0
    """Pause between two checks of the health of GPUs, and between two attempts to clean up after claims."""
    discovery_seconds: float = 10.0
    """Pause between two discoveries of GPUs and partitions."""
    nvml_seconds: float = 5.0
    """How long a call of NVML may take; calls that change a GPU may take four times as long."""
    recovery_seconds: int = 300
    """How long a GPU without new errors stays tainted; 0 for as long as the driver runs."""
    mps_shared_memory: Literal["private", "host"] = "private"
    """`/dev/shm` of an MPS daemon and its clients: a file system of their own, or that of the machine."""
    driver_root: str = ""
    """Root of the vendor's libraries and programs; empty for the usual places."""
    host_driver_root: str = ""
    """The same directory as the container runtime sees it, where this process is in a container."""
    dev_root: str = "/"
    """The directory that has `dev/nvidia0`."""
    proc_root: str = "/proc"
    sysfs_root: str = "/sys"

    def __post_init__(self) -> None:
        _ = self.sharing
        if self.recovery_seconds < 0:
            raise ValueError("recoverySeconds must not be negative")
        if min(self.check_seconds, self.discovery_seconds, self.nvml_seconds) <= 0:
            raise ValueError("checkSeconds, discoverySeconds and nvmlSeconds must be positive")
        _ = self.application_xids

    @property
    def sharing(self) -> Sharing | None:
        """How several claims may have one device; None for one claim each."""
        match self.consumable_shares:
            case "disabled":
                return None
            case "memory":
                return Sharing("memory")
            case "unlimited":
                return Sharing("unlimited")
        if not self.consumable_shares.isdecimal() or not 0 < int(self.consumable_shares) <= 1000:
            raise ValueError(
                f"ConsumableShares is {self.consumable_shares!r}; give disabled, memory, unlimited, "
                "or a number from 1 to 1000"
            )
        return Sharing("shares", int(self.consumable_shares))

    @property
    def application_xids(self) -> frozenset[int]:
        """The further ones."""
        try:
            return frozenset(int(number) for number in self.ignored_xids.split(",") if number.strip())
        except ValueError:
            raise ValueError(f"ignoredXids is {self.ignored_xids!r}; give numbers with commas between them") from None

    @property
    def sysfs(self) -> Path:
        return Path(self.sysfs_root).absolute()

    @property
    def proc(self) -> Path:
        return Path(self.proc_root).absolute()

    @property
    def boot_id(self) -> str:
        """Differs after each start of the machine; empty if the kernel does not tell."""
        try:
            return (self.proc / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return ""

    @property
    def dev(self) -> Path:
        """The directory of device files."""
        return Path(self.dev_root).absolute() / "dev"
