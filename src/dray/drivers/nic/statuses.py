"""What the status of a claim says about its interfaces: conditions and network data, as published."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime

from dray.api.objects import Object
from dray.client.clock import timestamp
from dray.client.errors import ClientError, NotFound
from dray.client.log_throttling import ThrottledLog
from dray.driver import DeviceStatus, NetworkData
from dray.driver.driver import ApplyDeviceStatus
from dray.drivers.nic.attachment import Attachment

_logger = logging.getLogger(__name__)


class ClaimStatuses:
    """Writes into claims what has become of their interfaces; once, until that is something else."""

    def __init__(self, apply: ApplyDeviceStatus) -> None:
        self._apply = apply
        self._told: dict[str, list[Attachment]] = {}
        self._log = ThrottledLog(_logger)

    def forget(self, claim_uid: str) -> None:
        self._told.pop(claim_uid, None)

    async def tell(self, attachments: Iterable[Attachment]) -> None:
        """`attachments` are all of this driver. What cannot be written is tried again the next time."""
        claims: dict[str, list[Attachment]] = {}
        for attachment in attachments:
            claims.setdefault(attachment.claim_uid, []).append(attachment)
        for uid, members in claims.items():
            known = {member.allocated: status_of(member) for member in members}
            given = {device: status for device, status in known.items() if status is not None}
            if not given or self._told.get(uid) == members:
                continue
            reference = members[0].reference
            try:
                await self._apply(reference, given)
                self._told[uid] = members
            except NotFound:
                # Its pod ends by now.
                self._told[uid] = members
            except ClientError as error:
                self._log.warning(uid, "the status of claim %s cannot be written: %s", reference, error)


def status_of(attachment: Attachment) -> DeviceStatus | None:
    """Returns the device status of an attachment; None while there is nothing to report."""
    if attachment.problem:
        failed = _condition("Ready", "False", "NetworkDeviceAttachFailed", attachment.problem)
        return DeviceStatus(conditions=[failed])
    in_pod = attachment.in_pod
    if attachment.phase != "attached" or in_pod is None:
        return None
    if not attachment.nic.interface:
        return DeviceStatus(conditions=[_condition("Ready", "True", "RDMAOnlyDeviceReady"), *_rdma(attachment)])
    network = NetworkData(in_pod.interface, in_pod.addresses, in_pod.mac)
    ready = [_condition("Ready", "True", "NetworkDeviceReady"), _condition("NetworkReady", "True", "NetworkReady")]
    return DeviceStatus(conditions=[*ready, *_rdma(attachment)], network=network)


def _rdma(attachment: Attachment) -> Iterable[Object]:
    if attachment.in_pod is not None and attachment.in_pod.rdma_moved:
        yield _condition("RDMALinkReady", "True", "RDMALinkReady")


def _condition(kind: str, status: str, reason: str, message: str = "") -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(datetime.now(UTC)),
    }
