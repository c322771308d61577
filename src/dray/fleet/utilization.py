"""Utilization of GPUs on simulated nodes: by the rule of simulated GPUs, in the status of the claims of running pods.

A claim is written some seconds after its pod has started, and again when what the rule says has changed: in steps, at
most once a minute. A sweep writes a limited number of claims, so that a large fleet does not load the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from dray.api.device_utilization import IDLE_PERCENT, KEY, Utilization
from dray.api.objects import Object, annotations_of, controller_uid, key_of, uid_of
from dray.api.pods import node_of
from dray.api.quantity import Quantity
from dray.api.resource_claims import allocation_of
from dray.client.clock import timestamp
from dray.client.errors import ApiError, ClientError
from dray.client.log_throttling import ThrottledLog, cause_of
from dray.controllers.environment import Environment
from dray.driver import AllocatedDevice, ClaimReference, DeviceStatus
from dray.driver.claims import allocated_devices
from dray.driver.device_status import DeviceStatuses
from dray.driver.metrics import DriverMetrics
from dray.driver.utilization import differs
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.simulated.utilization import simulated_ratio
from dray.fleet.machine import Machine

_SWEEP_SECONDS: Final = 5.0
_WRITE_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 300.0
_MOST_WRITES: Final = 100
_logger = logging.getLogger("dray.fleet")


@dataclass(slots=True)
class _Followed:
    """A claim that pods of one node use."""

    reference: ClaimReference
    node: str
    devices: tuple[AllocatedDevice, ...]
    annotations: Mapping[str, str]
    began: datetime
    is_owned: bool
    """True if the claim is deleted with its pod."""
    pods: set[str] = field(default_factory=set)
    written: Utilization | None = None
    at: float = float("-inf")


class FleetUtilization:
    def __init__(self, environment: Environment, machines: Mapping[str, Machine]) -> None:
        self._client = environment.client
        self._time = environment.time
        self._machines = machines
        self._metrics = DriverMetrics(DRIVER)
        self._log = ThrottledLog(_logger)
        self._claims: dict[tuple[str, str], _Followed] = {}
        """Followed claims by (node, claim uid)."""
        self._by_pod: dict[str, list[tuple[str, str]]] = {}
        self._ended: list[_Followed] = []

    def started(self, pod: Object, claim: Object) -> None:
        """Follows a claim that a pod on a simulated node uses now."""
        devices = tuple(
            device for device in allocated_devices(allocation_of(claim) or {}, DRIVER, ()) if not device.admin_access
        )
        if not devices:
            return
        key = node_of(pod), uid_of(claim)
        if key not in self._claims:
            reference = ClaimReference(*key_of(claim), uid_of(claim))
            is_owned = controller_uid(claim) == uid_of(pod)
            self._claims[key] = _Followed(
                reference, node_of(pod), devices, annotations_of(pod), self._time.now(), is_owned
            )
        self._claims[key].pods.add(uid_of(pod))
        self._by_pod.setdefault(uid_of(pod), []).append(key)

    def ended(self, pod_uid: str) -> None:
        for key in dict.fromkeys(self._by_pod.pop(pod_uid, ())):
            followed = self._claims[key]
            followed.pods.discard(pod_uid)
            if not followed.pods:
                del self._claims[key]
                if followed.written is not None and not followed.is_owned:
                    self._ended.append(followed)

    async def run(self) -> None:
        """Reports until it is cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            await self.sweep()

    async def sweep(self) -> None:
        """Writes the claims that are due."""
        ended, self._ended = self._ended, []
        for followed in ended:
            await self._apply(followed, {})
        now, left = self._time.now(), _MOST_WRITES
        for followed in [*self._claims.values()]:
            report = self._report(followed, now)
            if left > 0 and _is_due(followed, report, now):
                left -= 1
                followed.at, followed.written = now.timestamp(), report
                statuses = {device: self._status(followed.node, device, report) for device in followed.devices}
                await self._apply(followed, statuses)

    def _report(self, followed: _Followed, now: datetime) -> Utilization:
        ratio = simulated_ratio(followed.annotations, followed.reference.name, int(now.timestamp() // 60))
        percent = round(100 * ratio)
        is_idle = percent < IDLE_PERCENT and (now - followed.began).total_seconds() >= _IDLE_SECONDS
        return Utilization(percent, None, timestamp(now), timestamp(followed.began) if is_idle else "")

    def _status(self, node: str, device: AllocatedDevice, report: Utilization) -> DeviceStatus:
        gpu = next((each for each in self._machines[node].gpus if each.name == device.device), None)
        if gpu is not None:
            memory = Quantity.parse(gpu.model.memory).value()
            report = replace(report, memory_used=memory * (report.percent or 0) // 100)
        return DeviceStatus(data={KEY: report.document()})

    async def _apply(self, followed: _Followed, statuses: Mapping[AllocatedDevice, DeviceStatus]) -> None:
        try:
            writer = DeviceStatuses(self._client, DRIVER, followed.node, self._metrics)
            await writer.apply(followed.reference, statuses)
        except ClientError as error:
            if not (isinstance(error, ApiError) and (error.status in (404, 409))):
                self._log.warning(
                    cause_of(error), "the utilization of %s is not written: %s", followed.reference, error
                )


def _is_due(followed: _Followed, report: Utilization, now: datetime) -> bool:
    before = followed.written
    if before is None:
        return (now - followed.began).total_seconds() >= _SWEEP_SECONDS
    if now.timestamp() < followed.at + _WRITE_SECONDS:
        return False
    return differs(report, before)
