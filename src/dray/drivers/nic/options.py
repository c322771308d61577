"""The options of the NIC driver."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

Cloud = Literal["auto", "none", "gce", "azure", "oke", "alibaba"]


class NicOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    interfaces: str = "*"
    """Patterns of the names of interfaces that may be offered, separated by commas."""
    exclude_interfaces: str = ""
    """Patterns of those that may not."""
    exclude_types: str = "veth"
    """Types of interfaces that are not offered: by default the ends of the networks of pods."""
    node_addresses: str = ""
    """Addresses of the node, beside those of its Node object: interfaces that have one are never offered."""
    move_ib_interfaces: bool = msgspec.field(default=True, name="moveIBInterfaces")
    """Whether an interface for IP over InfiniBand moves into the pod with its RDMA device."""
    cloud_provider: Cloud = "none"
    """The cloud whose metadata server is asked for more attributes; `auto` asks all of them."""
    metadata_server: str = ""
    """Another address of it, as for tests."""
    rescan_seconds: float = 60.0
    """Seconds between two scans of the machine when the kernel reports no change."""
    sysfs_root: str = "/sys"
    device_root: str = "/dev"
    state_directory: str = "/run/dray/nic"
    """Records which interface is in which pod, and its state before. Must not survive a reboot."""
    hook_path: str = ""
    """On the machine, the program that runtimes run as hook; the Python of this driver unless it is given."""

    @property
    def sysfs(self) -> Path:
        return Path(self.sysfs_root).absolute()

    @property
    def devices(self) -> Path:
        return Path(self.device_root).absolute()

    @property
    def state(self) -> Path:
        return Path(self.state_directory).absolute()

    def offers(self, name: str) -> bool:
        return _matches(self.interfaces, name) and not _matches(self.exclude_interfaces, name)

    def excludes_type(self, kind: str) -> bool:
        return _matches(self.exclude_types, kind)


def _matches(patterns: str, name: str) -> bool:
    return any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",") if pattern.strip())
