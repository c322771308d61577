"""Events of GPUs: one set of NVML for all of them, made anew in each session and when it fails.

While no events come, for whatever reason, `error` says why: errors of GPUs are then not seen, and nothing else is
wrong with them.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any, Final

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError, call, optional
from dray.drivers.gpu.nvml_session import Handle, Nvml

# Seconds between two events.
_EVENT_PAUSE: Final = 0.02
# So many seconds before its end a wait may return.
_EARLY: Final = 0.05
_logger = logging.getLogger(__name__)


class GpuEvents:
    def __init__(self, nvml: Nvml) -> None:
        self.error: NvmlError | None = None
        self._nvml = nvml
        self._set: Handle = None
        self._generation = -1
        self._registered: set[str] = set()
        self._silent: set[str] = set()

    @property
    def is_of_session(self) -> bool:
        """Whether the set belongs to the present session."""
        return self._generation == self._nvml.generation

    def renew(self) -> None:
        """Makes a new set, unless there is one that works."""
        if self._set is not None and self.is_of_session:
            return
        self.close()
        self._registered.clear()
        self._generation = self._nvml.generation
        try:
            self._set = call("events", pynvml.nvmlEventSetCreate)
        except NvmlError as error:
            self._failed(error)

    def close(self) -> None:
        events, self._set = self._set, None
        if events is not None and self.is_of_session:
            with suppress(NvmlError):
                call("events", pynvml.nvmlEventSetFree, events)

    def register(self, uuid: str, handle: Handle) -> None:
        """Asks for the events of a GPU, unless that was done already."""
        if self._set is None or uuid in self._registered:
            return
        doing = f"events of GPU {uuid}"
        wanted = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
        try:
            wanted &= optional(doing, pynvml.nvmlDeviceGetSupportedEventTypes, handle) or 0
            if wanted:
                call(doing, pynvml.nvmlDeviceRegisterEvents, handle, wanted, self._set)
                self._registered.add(uuid)
        except NvmlError as error:
            if uuid not in self._silent:
                _logger.error("errors of a GPU are not reported: %s", error)
            wanted = 0
        self._silent = self._silent - {uuid} if wanted else self._silent | {uuid}

    def forget(self, uuid: str) -> None:
        """Forgets that the GPU is registered, because the GPU was lost."""
        self._registered.discard(uuid)

    def come_from(self, uuid: str) -> bool:
        """Whether errors of this GPU are reported."""
        return self.error is None and uuid not in self._silent

    def wait(self, seconds: float) -> Any:
        """Returns an event; None if none has come in so many seconds."""
        if self._set is None:
            time.sleep(seconds)
            return None
        limit = seconds + CALLS.seconds
        began = time.monotonic()
        try:
            event = call("events", pynvml.nvmlEventSetWait, self._set, int(1000 * seconds), seconds=limit)
        except NvmlError as error:
            if error.is_timeout:
                self._failed(None)
                # A library that does not wait must not keep a processor busy.
                time.sleep(max(0.0, seconds - (time.monotonic() - began) - _EARLY))
                return None
            # The set may be broken.
            self._failed(error)
            self.close()
            time.sleep(seconds)
            return None
        self._failed(None)
        # Events may come without end, for example from an application that fails in a loop.
        time.sleep(_EVENT_PAUSE)
        return event

    def _failed(self, error: NvmlError | None) -> None:
        before, self.error = self.error, error
        if error is not None and before is None:
            _logger.error("errors of GPUs are not reported: %s", error)
        if error is None and before is not None:
            _logger.warning("errors of GPUs are reported again")
