"""gRPC services of a driver: DRA v1 and v1beta1, health v1 and v1alpha1, plugin registration.

The versions of a service have the same messages, except that DRA v1beta1 has no share ids; one class serves both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from time import time
from typing import Any, Final

import grpc

from dray._proto import kubelet_pb2 as messages
from dray._proto import services
from dray.driver.claims import ClaimReference
from dray.driver.health_reports import HealthReports
from dray.driver.injection import AnsweredDevice
from dray.driver.options import DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1
from dray.driver.preparation import Preparation

_DRA: Final = {DRA_V1: services.DRA_V1, DRA_V1BETA1: services.DRA_V1BETA1}
_HEALTH: Final = {HEALTH_V1: services.HEALTH_V1, HEALTH_V1ALPHA1: services.HEALTH_V1ALPHA1}
_LONGEST_MESSAGE: Final = 1024
_logger = logging.getLogger(__name__)


def add_services(
    server: grpc.aio.Server, names: Iterable[str], work: Preparation, health: HealthReports | None
) -> None:
    for name in names:
        if name in _DRA:
            _DRA[name].serve(DraService(work, share_ids=name == DRA_V1), server)
        elif health is not None:
            _HEALTH[name].serve(HealthService(health), server)


class DraService:
    def __init__(self, work: Preparation, *, share_ids: bool) -> None:
        self._work = work
        self._share_ids = share_ids

    async def NodePrepareResources(self, request: Any, context: Any) -> messages.NodePrepareResourcesResponse:
        outcomes = await self._work.prepare(_references(request))
        response = messages.NodePrepareResourcesResponse()
        for uid, outcome in outcomes.items():
            entry = response.claims[uid]
            entry.SetInParent()
            entry.error = outcome.error
            entry.devices.extend(self._device(device) for device in outcome.devices)
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> messages.NodeUnprepareResourcesResponse:
        outcomes = await self._work.unprepare(_references(request))
        response = messages.NodeUnprepareResourcesResponse()
        for uid, outcome in outcomes.items():
            # Without this an entry without error would not be sent.
            response.claims[uid].SetInParent()
            response.claims[uid].error = outcome.error
        return response

    def _device(self, answer: AnsweredDevice) -> messages.Device:
        device = answer.device
        made = messages.Device(
            request_names=[device.base_request],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=answer.cdi_ids,
        )
        if device.share_id and self._share_ids:
            made.share_id = device.share_id
        return made


class HealthService:
    def __init__(self, reports: HealthReports) -> None:
        self._reports = reports

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for devices in self._reports.watch():
            now = int(time())
            yield messages.NodeWatchResourcesResponse(
                devices=[
                    messages.DeviceHealth(
                        device=messages.DeviceIdentifier(pool_name=device.pool, device_name=device.device),
                        health=device.health.name,
                        last_updated_time=now,
                        health_check_timeout_seconds=device.timeout,
                        message=_shortened(device.message),
                    )
                    for device in devices
                ]
            )


class RegistrationService:
    """Answers from memory. `status` is what the kubelet said last; `registered` is set once it has said yes, and
    `on_registered` is called each time it does."""

    def __init__(self, driver: str, endpoint: str, versions: Iterable[str], on_registered: Callable[[], None]) -> None:
        self._on_registered = on_registered
        self._info = messages.PluginInfo(
            type="DRAPlugin", name=driver, endpoint=endpoint, supported_versions=list(versions)
        )
        self.status: messages.RegistrationStatus | None = None
        self.registered = asyncio.Event()

    async def GetInfo(self, request: Any, context: Any) -> messages.PluginInfo:
        _logger.info("the kubelet asks who driver %s is", self._info.name)
        return self._info

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.status = request
        if request.plugin_registered:
            _logger.info("the kubelet has registered driver %s", self._info.name)
            self.registered.set()
            self._on_registered()
        else:
            self.registered.clear()
            _logger.error("the kubelet does not register driver %s: %s", self._info.name, request.error)
            await context.abort(grpc.StatusCode.INTERNAL, f"registration failed: {request.error}")
        return messages.RegistrationStatusResponse()


def _references(request: Any) -> list[ClaimReference]:
    return [ClaimReference(claim.namespace, claim.name, claim.uid) for claim in request.claims]


def _shortened(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 3] + "..."
