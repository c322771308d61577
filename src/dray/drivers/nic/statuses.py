"""What the status of a claim says about its interfaces: conditions and network data, as published."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from dray.api.objects import Object
from dray.client.clock import timestamp
from dray.driver import DeviceStatus, NetworkData
from dray.drivers.nic.attachment import Attachment


def status_of(attachment: Attachment) -> DeviceStatus | None:
    """None while there is nothing to tell."""
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
