"""Health of GPUs: errors that NVML reports as events, GPUs that are gone, and their recovery.

An XID is the number of an error in the driver's log; some are the fault of the application that ran, and are shown
without keeping anybody off. An uncorrectable memory error counts as XID 48. A GPU that was lost is healthy when it
answers again; one with errors when none has come for some time, the driver asks for no reset, and no row of its
memory waits to be replaced. `step` blocks and is called in a thread; what it found is read as taints and reports.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.driver import DeviceHealth, Health, Taint
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.discovery import FoundGpu
from dray.drivers.gpu.nvml import Handle, Nvml, NvmlError, call, optional, uuid_of
from dray.drivers.gpu.options import GpuOptions

XID: Final = f"{DRIVER}/xid"
LOST: Final = f"{DRIVER}/gpu-lost"
UNMONITORED: Final = f"{DRIVER}/unmonitored"
APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
_UNCORRECTABLE: Final = 48
_WHOLE: Final = 0xFFFFFFFF
_WAIT_MILLISECONDS: Final = 500
_CHECK_SECONDS: Final = 5.0
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    """`errors` has, by device name (empty for all of the GPU) and XID, when it came last."""

    found: FoundGpu
    is_lost: bool = False
    is_monitored: bool = True
    errors: dict[tuple[str, int], float] = field(default_factory=dict)


class HealthMonitor:
    def __init__(self, nvml: Nvml, options: GpuOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._now = now
        self._harmless = APPLICATION_XIDS | options.application_xids
        self._recovery = options.recovery_seconds
        self.is_informing = True
        """Whether taints are put that keep nobody off; API servers before 1.35 refuse them."""
        self._watched: dict[str, _Watched] = {}
        self._events: Handle = None
        self._checked = float("-inf")

    def watch(self, gpus: Iterable[FoundGpu]) -> None:
        """These from now on; what is known of GPUs that were watched before stays known."""
        before, self._watched = self._watched, {}
        if self._events is None:
            self._events = call("events", pynvml.nvmlEventSetCreate)
        for each in gpus:
            known = before.get(each.gpu.uuid)
            if known is not None:
                known.found = each
            self._watched[each.gpu.uuid] = known or self._register(_Watched(each))

    def close(self) -> None:
        if self._events is not None:
            call("events", pynvml.nvmlEventSetFree, self._events)
            self._events = None

    def step(self) -> bool:
        """Waits for an event, not long; whether anything has changed."""
        changed = self._wait()
        if self._now() >= self._checked + _CHECK_SECONDS:
            self._checked = self._now()
            changed = any([self._check(each) for each in self._watched.values()]) or changed
        return changed

    @property
    def lost(self) -> set[str]:
        """UUIDs of GPUs that do not answer."""
        return {uuid for uuid, each in self._watched.items() if each.is_lost}

    def taints(self, uuid: str, device: str) -> tuple[Taint, ...]:
        watched = self._watched.get(uuid)
        if watched is None:
            return ()
        found = []
        if watched.is_lost:
            found.append(Taint(LOST))
        critical, harmless = self._errors(watched, device)
        found += [Taint(XID, str(xid)) for xid in critical[-1:]]
        if self.is_informing:
            found += [Taint(XID, str(xid), "None") for xid in harmless[-1:]]
            found += [] if watched.is_monitored else [Taint(UNMONITORED, effect="None")]
        return tuple(found)

    def report(self, pool: str, uuid: str, device: str) -> DeviceHealth:
        watched = self._watched.get(uuid)
        if watched is None or not watched.is_monitored:
            return DeviceHealth(pool, device, Health.UNKNOWN, "the GPU reports no errors" if watched else "")
        critical, harmless = self._errors(watched, device)
        told = [f"XID {xid}" for xid in critical]
        if watched.is_lost:
            told.insert(0, "the GPU does not answer any more")
        if told:
            return DeviceHealth(pool, device, Health.UNHEALTHY, ", ".join(told))
        applications = ", ".join(f"XID {xid} of an application" for xid in harmless)
        return DeviceHealth(pool, device, Health.HEALTHY, applications)

    def _errors(self, watched: _Watched, device: str) -> tuple[list[int], list[int]]:
        """Those that the GPU has, and those of applications; the latest last."""
        whole = device == watched.found.gpu.name
        newest = sorted(watched.errors.items(), key=lambda item: item[1])
        xids = [xid for (place, xid), _ in newest if whole or place in ("", device)]
        return [xid for xid in xids if xid not in self._harmless], [xid for xid in xids if xid in self._harmless]

    def _register(self, watched: _Watched) -> _Watched:
        uuid = watched.found.gpu.uuid
        doing = f"events of GPU {uuid}"
        try:
            handle = self._nvml.find(uuid)
            wanted = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
            wanted &= optional(doing, pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0
            watched.is_monitored = bool(wanted)
            if watched.is_monitored:
                call(doing, pynvml.nvmlDeviceRegisterEvents, handle, wanted, self._events)
        except NvmlError as error:
            watched.is_lost = error.is_gone
            watched.is_monitored = error.is_gone
        return watched

    def _wait(self) -> bool:
        try:
            event = call("events", pynvml.nvmlEventSetWait, self._events, _WAIT_MILLISECONDS)
        except NvmlError as error:
            if not error.is_timeout:
                # Which GPU it is, the check tells.
                self._checked = float("-inf")
                time.sleep(_WAIT_MILLISECONDS / 1000)
            return False
        return self._take(event.device, event.eventType, int(event.eventData), event.gpuInstanceId)

    def _take(self, handle: Handle, kind: int, data: int, instance: int) -> bool:
        try:
            watched = self._watched.get(uuid_of(handle))
            if watched is None:
                return False
            device = self._device(handle, watched.found, instance)
        except NvmlError:
            # It is lost meanwhile.
            self._checked = float("-inf")
            return False
        xid = _UNCORRECTABLE if kind == pynvml.nvmlEventTypeDoubleBitEccError else data
        known = (device, xid) in watched.errors
        watched.errors[device, xid] = self._now()
        _logger.warning("%s: XID %d", device or watched.found.gpu.name, xid)
        return not known

    def _device(self, handle: Handle, found: FoundGpu, instance: int) -> str:
        """The partition that an event is about; empty for all of the GPU."""
        if instance == _WHOLE:
            return ""
        places = [(each.profile_id, each.start) for each in nvml_mig.instances(handle) if each.id == instance]
        names = [name for name, each in found.partitions.items() if (each.profile.id, each.start) in places]
        return names[0] if names else ""

    def _check(self, watched: _Watched) -> bool:
        uuid = watched.found.gpu.uuid
        was_lost = watched.is_lost
        try:
            handle = self._nvml.find(uuid)
            uuid_of(handle)
            watched.is_lost = False
        except NvmlError as error:
            watched.is_lost = error.is_gone
            if watched.is_lost != was_lost:
                _logger.error("%s: %s", watched.found.gpu.name, error)
            return watched.is_lost != was_lost
        if was_lost:
            _logger.warning("%s answers again", watched.found.gpu.name)
            self._register(watched)
        return self._recover(handle, watched) or was_lost

    def _recover(self, handle: Handle, watched: _Watched) -> bool:
        """Forgets errors that are over; whether there were any."""
        limit = self._now() - self._recovery
        old = [key for key, last in watched.errors.items() if self._recovery and last <= limit]
        if not old or _needs_repair(handle):
            return False
        for key in old:
            del watched.errors[key]
            _logger.warning("%s has recovered from XID %d", key[0] or watched.found.gpu.name, key[1])
        return True


def _needs_repair(handle: Handle) -> bool:
    """Whether the driver asks for a reset or a reboot, or memory waits to be replaced."""
    field_id = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
    values: Sequence[Any] = optional("recovery action", pynvml.nvmlDeviceGetFieldValues, handle, [field_id]) or ()
    for each in values:
        if each.nvmlReturn == pynvml.NVML_SUCCESS and each.value.uiVal != pynvml.NVML_GPU_RECOVERY_ACTION_NONE:
            return True
    rows = optional("remapped rows", pynvml.nvmlDeviceGetRemappedRows, handle)
    return rows is not None and bool(rows[2] or rows[3])
