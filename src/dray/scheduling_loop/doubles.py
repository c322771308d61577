"""Doubles: reports devices that are allocated to two claims exclusively, by events about the claims, a metric and the
log.

This happens only if another scheduler allocates devices without the same intent log. Shares of a device and admin
access do not count, and neither do decisions that are not written. Between two watch events a device may seem to be
allocated twice, so it is checked again a moment later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from dray.allocation.devices import DeviceID
from dray.allocation.usage import device_of
from dray.api.objects import Object, key_of
from dray.api.resource_claims import results_of
from dray.client.cache import Change
from dray.client.events import EventRecorder
from dray.client.informer import Informer
from dray.client.log_throttling import ThrottledLog
from dray.scheduling.core.state import State
from dray.scheduling_loop.metrics import Metrics

_MOMENT: Final = 2.0
_REFERENCE: Final = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
_logger = logging.getLogger("dray.scheduler")


class Doubles:
    def __init__(self, state: State, claims: Informer, events: EventRecorder, metrics: Metrics) -> None:
        self._state = state
        self._claims = claims
        self._events = events
        self._throttled = ThrottledLog(_logger)
        self._suspects: set[DeviceID] = set()
        self._reported: dict[DeviceID, frozenset[str]] = {}
        """The uids of the claims that hold a device which was reported, by device."""
        self._changed = asyncio.Event()
        self._follows = False
        metrics.held_twice.set_function(lambda: len(self._reported))

    async def run(self) -> None:
        """Checks devices until it is cancelled."""
        if not self._follows:
            self._follows = True
            self._claims.add_handler(self._look)
        while True:
            await self._changed.wait()
            await asyncio.sleep(_MOMENT)
            self._changed.clear()
            suspects, self._suspects = self._suspects, set()
            for device in suspects:
                self._check(device)

    def _look(self, change: Change) -> None:
        devices = self._state.inventory.usage.devices
        for device in {*_devices(change.object), *_devices(change.previous or {})}:
            usage = devices.get(device)
            if device in self._reported or (usage is not None and len(usage.owners) + bool(usage.shares) > 1):
                self._suspects.add(device)
                self._changed.set()

    def _check(self, device: DeviceID) -> None:
        usage = self._state.inventory.usage.devices.get(device)
        holders = {} if usage is None else {key: self._state.claims.get(key) for key in usage.claims()}
        claims = [claim for claim in holders.values() if claim is not None and device in _devices(claim)]
        if usage is None or not usage.owners or len(claims) < 2:
            self._reported.pop(device, None)
            return
        uids = frozenset(str(claim["metadata"].get("uid")) for claim in claims)
        if self._reported.get(device) != uids:
            self._reported[device] = uids
            self._report(device, claims)

    def _report(self, device: DeviceID, claims: list[Object]) -> None:
        names = ["/".join(key_of(claim)) for claim in claims]
        self._throttled.warning(
            "twice", "device %s is held by ResourceClaims %s", "/".join(device), " and ".join(names)
        )
        for claim, name in zip(claims, names, strict=True):
            others = " and ".join(each for each in names if each != name)
            message = f"device {'/'.join(device)} is allocated to {others} too: delete one of them with its pods"
            self._events.warning({**_REFERENCE, **claim}, "DeviceHeldTwice", message)


def _devices(claim: Object) -> Iterable[DeviceID]:
    """Returns the devices that the claim holds, exclusively or as shares."""
    return [device_of(each) for each in results_of(claim) if not each.get("adminAccess")]
