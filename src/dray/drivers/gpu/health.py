"""Health of GPUs: errors that NVML reports as events, GPUs that do not answer, and their recovery.

A GPU is sick if a query that reaches the hardware fails: handle and UUID come from NVML's cache, also of a GPU that has
fallen off the bus. A GPU that is lost, or answers with an unknown error, has the taint `gpu-lost`; any other failure is
`nvml-error` with the number of the error, or `timeout`. So is a query that the GPU has answered before and does not
support now, and a fact that `discovery` cannot read any more. All GPUs have it while there is no session with NVML.
`xids` tells when errors are over. `step` blocks and is called in a thread; what it found is read as taints and reports.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dray.driver import DeviceHealth, Health, Taint
from dray.drivers.devices.gpu import DRIVER
from dray.drivers.gpu import nvml_mig
from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.discovery import FoundGpu
from dray.drivers.gpu.gpu_events import GpuEvents
from dray.drivers.gpu.known_answers import Ask
from dray.drivers.gpu.nvml import uuid_of
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError
from dray.drivers.gpu.nvml_session import Handle, Nvml
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.xids import APPLICATION_XIDS, UNCORRECTABLE, XidErrors

XID: Final = f"{DRIVER}/xid"
LOST: Final = f"{DRIVER}/gpu-lost"
ERROR: Final = f"{DRIVER}/nvml-error"
UNMONITORED: Final = f"{DRIVER}/unmonitored"
_WHOLE: Final = 0xFFFFFFFF
# The longest wait for an event, in seconds.
_WAIT: Final = 0.5
# A lost GPU that is attached again is seen by a new session alone; checks between two sessions. Without a persistence
# daemon a new session initializes all GPUs, which takes seconds.
_RENEWAL: Final = 5
# In so many checks a GPU must be lost before it counts as reset when it is back: a single error may be a stray one.
_LOST_CHECKS: Final = 2
# How many checks a GPU stays tainted after it has refused a call that a claim needed.
_REFUSED: Final = 4
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watched:
    found: FoundGpu
    xids: XidErrors
    fault: NvmlError | None = None
    lost_checks: int = 0
    """In how many checks the GPU was lost since it last answered."""


class HealthMonitor:
    def __init__(self, nvml: Nvml, options: GpuOptions, now: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._now = now
        self._harmless = APPLICATION_XIDS | options.application_xids
        self._recovery = options.recovery_seconds
        self._check_seconds = options.check_seconds
        self.may_renew: Callable[[], bool] = lambda: True
        """Asked before the session is closed for a moment while some GPUs work."""
        self._wait_seconds = min(_WAIT, options.check_seconds)
        self.is_informing = True
        """Whether taints are put that keep nobody off; API servers before 1.35 refuse them."""
        self._lock = threading.Lock()
        self._failures: dict[str, NvmlError] = {}
        """Why NVML cannot be used at all, by the part of the driver that found out."""
        self._watched: dict[str, _Watched] = {}
        self._xids: dict[str, XidErrors] = {}
        self._unreadable: dict[str, NvmlError] = {}
        self._refusals: dict[str, tuple[NvmlError, float]] = {}
        self._events = GpuEvents(nvml)
        self._reloads = 0
        self._checked = float("-inf")
        self._due = float("-inf")
        """Time of the next check of the GPUs; `_checked` is the time of the last one."""
        self._checks = 0

    def watch(self, gpus: Iterable[FoundGpu]) -> None:
        """Watches these GPUs from now on. Errors of GPUs that were watched before stay known, also after a pause."""
        before, watched = self._watched, {}
        for found in gpus:
            uuid = found.gpu.uuid
            xids = self._xids.setdefault(uuid, XidErrors(self._harmless, self._recovery))
            watched[uuid] = before.get(uuid) or _Watched(found, xids)
            watched[uuid].found = found
        self._watched = watched

    def close(self) -> None:
        self._events.close()

    def step(self) -> None:
        """Waits for an event, not long, and checks the GPUs when that is due."""
        try:
            with self._nvml.opened():
                self._follow_session()
                if self._now() >= self._due:
                    self._checked = self._now()
                    self._due = self._checked + self._check_seconds
                    self._check_all()
                event = self._events.wait(self._wait_seconds)
                if event is not None:
                    self._take(event.device, event.eventType, int(event.eventData), event.gpuInstanceId)
            self.failed("session", None)
        except NvmlError as error:
            self.failed("session", error)
            time.sleep(self._wait_seconds)

    def failed(self, part: str, error: NvmlError | None) -> None:
        """Records that a part of the driver cannot use NVML at all, or can use it again (None)."""
        with self._lock:
            before = self._failures.get(part)
            others = {name: each for name, each in self._failures.items() if name != part}
            # Replaced as a whole: it is read by another thread.
            self._failures = others if error is None else {**others, part: error}
        if error is not None and before is None:
            _logger.error("%s: NVML cannot be used: %s", part, error)
        if error is None and before is not None:
            _logger.warning("%s: NVML can be used again", part)

    def unreadable(self, faults: Mapping[str, NvmlError]) -> None:
        """Records which GPUs discovery knows from before only, by UUID, because their facts cannot be read now."""
        before, self._unreadable = self._unreadable, dict(faults)
        for uuid, error in faults.items():
            if uuid not in before:
                _logger.error("facts of a GPU cannot be read any more: %s", error)
        for uuid in before.keys() - faults.keys():
            _logger.warning("facts of GPU %s can be read again", uuid)

    def refused(self, uuids: Iterable[str], error: NvmlError) -> None:
        """Records that a GPU has refused a call that a claim needed."""
        for uuid in uuids:
            self._refusals[uuid] = error, self._now()

    @property
    def lost(self) -> set[str]:
        """UUIDs of GPUs that do not answer."""
        return {uuid for uuid, each in self._watched.items() if each.fault is not None}

    def taints(self, uuid: str, device: str) -> tuple[Taint, ...]:
        fault, watched = self._fault(uuid), self._watched.get(uuid)
        found = [] if fault is None else [_taint(fault)]
        refusal = self._refusal(uuid)
        if fault is None and refusal is not None and (self.is_informing or not refusal.is_absent):
            found.append(Taint(ERROR, _value(refusal), "None" if refusal.is_absent else "NoSchedule"))
        if watched is None:
            return tuple(found)
        critical, harmless = watched.xids.of(device, watched.found.gpu.name)
        found += [Taint(XID, str(xid)) for xid in critical[-1:]]
        if self.is_informing:
            found += [Taint(XID, str(xid), "None") for xid in harmless[-1:]]
            found += [] if self._events.come_from(uuid) or fault is not None else [Taint(UNMONITORED, effect="None")]
        return tuple(found)

    def report(self, pool: str, uuid: str, device: str) -> DeviceHealth:
        watched = self._watched.get(uuid)
        fault = self._fault(uuid)
        critical, harmless = watched.xids.of(device, watched.found.gpu.name) if watched else ([], [])
        told = [f"XID {xid}" for xid in critical]
        if fault is not None:
            told.insert(0, f"the GPU does not answer: {fault}" if self._failure is None else str(fault))
        if told:
            return DeviceHealth(pool, device, Health.UNHEALTHY, ", ".join(told))
        if watched is None or not self._events.come_from(uuid):
            return DeviceHealth(pool, device, Health.UNKNOWN, "the GPU reports no errors" if watched else "")
        applications = ", ".join(f"XID {xid} of an application" for xid in harmless)
        return DeviceHealth(pool, device, Health.HEALTHY, applications)

    def _fault(self, uuid: str) -> NvmlError | None:
        watched = self._watched.get(uuid)
        return self._failure or (None if watched is None else watched.fault) or self._unreadable.get(uuid)

    @property
    def _failure(self) -> NvmlError | None:
        return next(iter(self._failures.values()), None)

    def _refusal(self, uuid: str) -> NvmlError | None:
        error, since = self._refusals.get(uuid, (None, 0.0))
        return error if self._now() < since + _REFUSED * self._check_seconds else None

    def _follow_session(self) -> None:
        if self._reloads != self._nvml.reloads:
            # The kernel driver was reloaded, or NVML was released for a reset.
            self._reloads = self._nvml.reloads
            for watched in list(self._watched.values()):
                self._forget_xids(watched)
        if not self._events.is_of_session:
            self._due = float("-inf")

    def _take(self, handle: Handle, kind: int, data: int, instance: int) -> None:
        try:
            watched = self._watched.get(uuid_of(handle))
        except NvmlError:
            # The GPU is lost meanwhile. Such events may come without end.
            self._due = min(self._due, self._checked + self._wait_seconds)
            return
        if watched is None:
            return
        device = _device(handle, watched.found, instance)
        xid = UNCORRECTABLE if kind == pynvml.nvmlEventTypeDoubleBitEccError else data
        watched.xids.add(device, xid, self._now())
        _logger.warning("%s: XID %d", device or watched.found.gpu.name, xid)

    def _check_all(self) -> None:
        self._checks += 1
        self._events.renew()
        for watched in list(self._watched.values()):
            self._check(watched)
        lost = self.lost
        is_due = bool(lost) and self._checks % _RENEWAL == 0
        if is_due and (lost == set(self._watched) or self.may_renew()):
            self._nvml.renew()

    def _check(self, watched: _Watched) -> None:
        before = watched.fault
        ask = self._nvml.known.ask(watched.found.gpu.uuid)
        try:
            with CALLS.within(CALLS.seconds):
                handle = self._nvml.find(watched.found.gpu.uuid)
                uuid_of(handle)
                query(handle, ask)
        except NvmlError as error:
            watched.fault = error
            watched.lost_checks += error.is_gone
            if before is None or before.code != error.code:
                _logger.error("%s does not answer: %s", watched.found.gpu.name, error)
            return
        watched.fault = None
        if before is not None:
            _logger.warning("%s answers again", watched.found.gpu.name)
            if before.is_gone:
                self._events.forget(watched.found.gpu.uuid)
            if watched.lost_checks >= _LOST_CHECKS:
                # It was attached again or reset.
                self._forget_xids(watched)
        watched.lost_checks = 0
        self._events.register(watched.found.gpu.uuid, handle)
        for device, xid in watched.xids.forget_old(handle, ask, self._now()):
            _logger.warning("%s has recovered from XID %d", device or watched.found.gpu.name, xid)

    def _forget_xids(self, watched: _Watched) -> None:
        for device, xid in watched.xids.forget_all():
            _logger.warning("%s was reset or attached again after XID %d", device or watched.found.gpu.name, xid)


def query(handle: Handle, ask: Ask) -> None:
    """Asks the hardware. Raises NvmlError if a query fails; those that the GPU never supported do not count."""
    ask("memory", pynvml.nvmlDeviceGetMemoryInfo, handle)
    ask("performance state", pynvml.nvmlDeviceGetPerformanceState, handle)
    ask("MIG mode", pynvml.nvmlDeviceGetMigMode, handle)


def _device(handle: Handle, found: FoundGpu, instance: int) -> str:
    """The partition that an event is about; empty for all of the GPU, also if the partition is not known."""
    if instance == _WHOLE:
        return ""
    try:
        places = [
            (present.profile_id, present.start) for present in nvml_mig.instances(handle) if present.id == instance
        ]
    except NvmlError:
        return ""
    names = [name for name, each in found.partitions.items() if (each.profile.id, each.start) in places]
    return names[0] if names else ""


def _taint(fault: NvmlError) -> Taint:
    if (fault.is_gone or fault.is_unknown) and not fault.is_hanging:
        return Taint(LOST)
    return Taint(ERROR, _value(fault))


def _value(error: NvmlError) -> str:
    return "timeout" if error.is_hanging else str(error.code)
