"""Options of a running driver: where its sockets and files are, and which protocols it serves."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dray.driver.errors import DriverError

KUBELET_ROOT: Final = Path("/var/lib/kubelet")
CDI_DIRECTORY: Final = Path("/var/run/cdi")
DEVICE_FILES: Final = "device-files.json"
"""In the driver's directory: patterns of the device files that pods get by claim."""

DRA_V1: Final = "v1.DRAPlugin"
DRA_V1BETA1: Final = "v1beta1.DRAPlugin"
HEALTH_V1: Final = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1: Final = "v1alpha1.DRAResourceHealth"
SERVICES: Final = (DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1)
"""Kubelet service names in the order in which they are advertised: a kubelet takes the first it knows."""

# sockaddr_un has room for 108 bytes with the terminator.
_LONGEST_PATH: Final = 107


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """`node_name` is empty for a driver whose devices belong to no node.

    `pod_uid` is for a rolling update, in which two instances of the driver run side by side: it makes the names of
    the sockets differ, and locks are held across processes. `metadata_versions` switches metadata files on:
    `("v1beta1",)`. Directories that are empty are those of the kubelet in `kubelet_root`; `host_directory` is the
    driver's directory as the kubelet sees it, where that differs, as in a container. Relative paths are made absolute:
    they reach CDI files, which container runtimes read, and daemons with another working directory.
    """

    node_name: str = ""
    kubelet_root: Path = KUBELET_ROOT
    registry_directory: Path | None = None
    directory: Path | None = None
    host_directory: Path | None = None
    cdi_directory: Path = CDI_DIRECTORY
    pod_uid: str = ""
    services: tuple[str, ...] = SERVICES
    metadata_versions: tuple[str, ...] = ()
    # Seconds until slices that somebody else changed are repaired.
    repair_delay: float = 30.0
    # Seconds between two looks whether the sockets are still there.
    socket_check: float = 2.0
    # Seconds that calls in progress are given when the driver stops.
    grace: float = 10.0
    # Seconds between two samples of the devices' utilization, at least between two writes of it into one claim, and
    # of low utilization after which a device is idle.
    utilization_seconds: float = 5.0
    utilization_write_seconds: float = 60.0
    idle_seconds: float = 300.0
    boot_id_file: Path = field(default=Path("/proc/sys/kernel/random/boot_id"))

    def __post_init__(self) -> None:
        for name in ("kubelet_root", "registry_directory", "directory", "host_directory", "cdi_directory"):
            path = getattr(self, name)
            if path is not None:
                object.__setattr__(self, name, path.absolute())

    def registry(self) -> Path:
        return self.registry_directory or self.kubelet_root / "plugins_registry"

    def plugin_directory(self, driver: str) -> Path:
        return self.directory or self.kubelet_root / "plugins" / driver

    def dra_socket(self, driver: str) -> Path:
        name = f"dra-{self.pod_uid}.sock" if self.pod_uid else "dra.sock"
        return _fitting([self.plugin_directory(driver) / name])

    def endpoint(self, driver: str) -> str:
        """The path of the DRA socket that the kubelet is told."""
        socket = self.dra_socket(driver)
        return str((self.host_directory or socket.parent) / socket.name)

    def registration_socket(self, driver: str) -> Path:
        """In a rolling update, the first name that fits."""
        names = [f"{driver}-reg.sock"]
        if self.pod_uid:
            both = f"{driver}\0{self.pod_uid}"
            names = [
                f"{driver}-{self.pod_uid}-reg.sock",
                f"{driver}-{_digest(self.pod_uid, 8)}-reg.sock",
                f"dra-{_digest(both, 16)}-reg.sock",
            ]
        return _fitting([self.registry() / name for name in names])


def _fitting(paths: list[Path]) -> Path:
    for path in paths:
        if len(str(path).encode()) <= _LONGEST_PATH:
            return path
    raise DriverError(
        f"{paths[-1]} is longer than the {_LONGEST_PATH} bytes of a socket's path: use shorter directories"
    )


def _digest(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode().rstrip("=")
