"""Recovery: interfaces that a driver which was killed left in networks of pods that are gone.

An attachment is left to its driver while that one has a record of the claim: the kubelet will have the claim
unprepared. Without a record nobody will. The record of another driver counts as long as that driver runs, or the
network of the pod is in use: the directory of a cluster that was killed may be there for ever.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from dray.drivers.nic.attachment import Attachment, AttachmentError, Attachments
from dray.drivers.nic.links import NetlinkFailed
from dray.drivers.nic.restore import restore
from dray.node.network_namespaces import is_in_use, number

_logger = logging.getLogger(__name__)


def recover(attachments: Attachments, own_directory: Path) -> None:
    """Brings back what nobody else will. In the network of the host."""
    for attachment in attachments.all():
        if attachment.host_network != number() or _is_cared_for(attachments, attachment, own_directory):
            continue
        _logger.warning(
            "device %s was left by claim %s, which is gone: it is brought back", attachment.device, attachment.reference
        )
        try:
            release(attachments, attachment.device, attachment.claim_uid)
        except (AttachmentError, NetlinkFailed, OSError) as error:
            _logger.error("device %s: %s", attachment.device, error)


def release(attachments: Attachments, device: str, claim_uid: str) -> None:
    """Back on the host, and forgotten. Raises AttachmentError."""
    with attachments.locked(device):
        attachment = attachments.read(device)
        if attachment is not None and attachment.claim_uid == claim_uid:
            restore(attachments, attachment)
            attachments.remove(device)


def _is_cared_for(attachments: Attachments, attachment: Attachment, own_directory: Path) -> bool:
    owner = Path(attachment.owner)
    if not (owner / "claims" / f"{attachment.claim_uid}.json").exists():
        return False
    if owner == own_directory or is_running(owner) or attachment.phase == "planned":
        # What is only planned is on the host; a hook may be about to move it.
        return True
    return is_in_use(attachment.namespace, besides=attachments.held_namespace(attachment.device))


def is_running(owner: Path) -> bool:
    """Whether the driver with that directory serves."""
    for path in owner.glob("dra*.sock"):
        # By a way that is short enough for the path of a socket.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            directory = os.open(owner, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                made.connect(f"/proc/self/fd/{directory}/{path.name}")
            finally:
                os.close(directory)
            return True
    return False
