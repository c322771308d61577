"""Attachments: which interface is, or is about to be, in the network of which pod, and how it was on the host.

    <state>/<device>.json     the attachment
    <state>/<device>.lock     held by whoever moves the interface
    <state>/netns/<device>    the network namespace of the pod, held so that what is in it cannot be lost

They are written before anything is changed, and belong to the machine rather than to one driver: whichever driver
starts next brings back what a killed one left. They end with the machine: after a restart all interfaces are on the
host.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from dray.driver import AllocatedDevice
from dray.driver.claims import ClaimReference
from dray.driver.files import remove_file, replace_file
from dray.drivers.devices.nic import Nic
from dray.drivers.nic.config import NetworkConfig
from dray.drivers.nic.snapshot import Snapshot
from dray.node import network_namespaces
from dray.process.beneath import read_regular

_logger = logging.getLogger(__name__)
_SUFFIX: Final = ".json"
_LARGEST: Final = 16 << 20


class AttachmentError(Exception):
    """An interface that cannot be moved, with the reason and what helps."""


class InPod(msgspec.Struct, frozen=True, kw_only=True):
    """State of an interface in its pod, as the claim's status reports it."""

    interface: str = ""
    addresses: tuple[str, ...] = ()
    mac: str = ""
    rdma_moved: bool = False


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """`owner` is the directory of the driver that prepared the claim. While `phase` is `planned`, the interface is on
    the host as ever. `problem` is why the last attempt to move it failed."""

    device: str
    pool: str
    request: str
    claim_namespace: str
    claim_name: str
    claim_uid: str
    owner: str
    boot_id: str
    host_network: int
    nic: Nic
    config: NetworkConfig
    phase: Literal["planned", "moving", "attached"] = "planned"
    snapshot: Snapshot | None = None
    namespace: int = 0
    moves_rdma: bool = False
    in_pod: InPod | None = None
    problem: str = ""

    def is_begun_for(self, claim_uid: str) -> bool:
        """Whether its interface is on its way to a pod of that claim, or there."""
        return self.claim_uid == claim_uid and self.phase != "planned"

    @property
    def reference(self) -> ClaimReference:
        return ClaimReference(self.claim_namespace, self.claim_name, self.claim_uid)

    @property
    def allocated(self) -> AllocatedDevice:
        return AllocatedDevice(self.pool, self.device, self.request)


class Attachments:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def held_namespace(self, device: str) -> Path:
        return self.directory / "netns" / device

    @contextmanager
    def locked(self, device: str) -> Iterator[None]:
        """Waits for whoever else moves it; whoever dies lets go."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.directory / f"{device}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self, device: str) -> Attachment | None:
        path = self.directory / f"{device}{_SUFFIX}"
        try:
            found = msgspec.json.decode(read_regular(path, _LARGEST), type=Attachment)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise AttachmentError(
                f"{path} cannot be read ({error}): see that the interface of {device} is on the host, "
                "then remove the file"
            ) from error
        if found.boot_id != boot_id():
            self.remove(device)
            return None
        return found

    def write(self, attachment: Attachment) -> Attachment:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = msgspec.json.encode(attachment)
        replace_file(self.directory / f"{attachment.device}{_SUFFIX}", content, durable=True)
        return attachment

    def remove(self, device: str) -> None:
        network_namespaces.let_go(self.held_namespace(device))
        remove_file(self.directory / f"{device}{_SUFFIX}")

    def all(self) -> list[Attachment]:
        """Returns every readable attachment; logs the others."""
        found = []
        for name in self._names():
            try:
                attachment = self.read(name)
            except (AttachmentError, OSError) as error:
                _logger.error("%s", error)
                continue
            if attachment is not None:
                found.append(attachment)
        return found

    def _names(self) -> list[str]:
        try:
            listed = os.listdir(self.directory)
        except OSError:
            # There is none yet, or it is not for this user to see.
            return []
        return sorted(name.removesuffix(_SUFFIX) for name in listed if name.endswith(_SUFFIX) and name[0] != ".")


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
