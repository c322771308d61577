"""The session of this process with NVML: opened, closed, and opened again after the kernel driver was reloaded.

An open session holds the device files of all GPUs: the kernel module cannot be unloaded and no GPU can be reset. So the
session is open only during an operation (`opened`), unless it is `held`, because events or partitions need it. While
the file `released_by` exists the session is closed in any case, and operations fail with NvmlError.

A session that is lost says nothing of the GPUs: only the kernel tells whether its module was reloaded.

The library is loaded by its real path: a driver that was upgraded has another one, and the process goes on with it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dray.drivers.gpu.binding import pynvml, use_library
from dray.drivers.gpu.kernel_module import KernelModule
from dray.drivers.gpu.known_answers import KnownAnswers
from dray.drivers.gpu.nvml_calls import CALLS, NvmlError, call, plausible

Handle = Any
"""A pointer to what NVML knows of a GPU or an instance."""

# More than any machine has.
_MOST_GPUS: Final = 1024
# As in libnvidia-ml.so.580.105.08.
_NAMED_VERSION: Final = re.compile(r"\.so\.(\d+\.[\d.]*\d)$")
_REASONS: Final = {
    "DRIVER_NOT_LOADED": "the kernel module of the NVIDIA driver is not loaded",
    "LIB_RM_VERSION_MISMATCH": "library and kernel module of the NVIDIA driver differ; reboot, or reload the module",
    "NO_PERMISSION": "the NVIDIA driver may not be used; run as root",
    "LIBRARY_NOT_FOUND": "the library of the NVIDIA driver cannot be loaded",
}


class Nvml:
    """`pause` is the least number of seconds between two attempts to open a session that was lost."""

    def __init__(
        self, library: Path, module: KernelModule | None = None, *, is_held: bool = True, pause: float = 5.0
    ) -> None:
        self.known = KnownAnswers()
        self.released_by: Path | None = None
        self.generation = 0
        """Grows whenever the session is closed: handles and event sets from before are not valid any more."""
        self.reloads = 0
        """Grows when the kernel module was reloaded, and when NVML was released, so that GPUs could be reset."""
        self._library = library
        self._module = module
        self.is_held = is_held
        self._pause = pause
        self._condition = threading.Condition()
        self._users = 0
        self._is_open = False
        self._is_stale = False
        self._opened_at = float("-inf")
        self._failure: NvmlError | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Opens the session for an operation; not to be nested. Raises NvmlError if the session cannot be opened."""
        with self._condition:
            self._check_released()
            if self._must_reopen():
                self._close_lost()
            if not self._is_open:
                self._try_to_open()
            self._users += 1
        try:
            yield
        finally:
            with self._condition:
                self._users -= 1
                if not self._users and not self.is_held:
                    self._shut()
                self._condition.notify_all()

    def _close_lost(self) -> None:
        """Closes the session, unless operations are under way: handles that they use would not be valid any more."""
        if CALLS.session_error is not None:
            # They are about to fail.
            self._condition.wait_for(lambda: not self._users, CALLS.seconds)
        # Another operation may have opened it again meanwhile.
        if not self._users and self._must_reopen():
            self._shut()

    def renew(self) -> None:
        """Has the session opened again before the next operation: it lists GPUs as they were when it was opened."""
        self._is_stale = True

    def close(self) -> None:
        with self._condition:
            self._shut()
            if self._module is not None:
                self._module.close()

    def _check_released(self) -> None:
        if self.released_by is None or not self.released_by.exists():
            return
        # Whoever asked for it takes the error as the sign that NVML is closed. A change may take four times as long.
        self._condition.wait_for(lambda: not self._users, 4 * CALLS.seconds)
        if not self._users and self._is_open:
            self._shut()
            self.reloads += 1
        raise NvmlError(f"NVML is closed while {self.released_by} exists", pynvml.NVML_ERROR_UNINITIALIZED, "released")

    def _must_reopen(self) -> bool:
        is_lost = self._is_stale or CALLS.session_error is not None
        return self._is_open and is_lost and time.monotonic() >= self._opened_at + self._pause

    def _try_to_open(self) -> None:
        """Raises the error of the last attempt again until it is time for another."""
        if self._failure is not None and time.monotonic() < self._opened_at + self._pause:
            raise self._failure.with_traceback(None)
        self._failure = None
        try:
            self._open()
        except NvmlError as error:
            self._failure = error
            raise

    def _open(self) -> None:
        self._opened_at = time.monotonic()
        self._is_stale = False
        CALLS.session_error = None
        try:
            use_library(Path(os.path.realpath(self._library)))
        except OSError as error:
            text = f"the library of the NVIDIA driver cannot be loaded: {error}"
            raise NvmlError("NVML", pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, text) from error
        try:
            # Without the persistence daemon it initializes all GPUs. A call that was given up must not hold them.
            call("open NVML", pynvml.nvmlInit, seconds=4 * CALLS.seconds, late=pynvml.nvmlShutdown)
        except NvmlError as error:
            reason = next((text for name, text in _REASONS.items() if _code(name) == error.code), str(error))
            raise NvmlError(reason, error.code, str(self._library), is_hanging=error.is_hanging) from error
        self._is_open = True
        if self._module is not None and self._module.follow():
            self.reloads += 1
            self.known.forget()

    def _shut(self) -> None:
        if self._is_open:
            self._is_open = False
            self.generation += 1
            # A session that was lost cannot be closed in order.
            with suppress(NvmlError):
                call("close NVML", pynvml.nvmlShutdown)

    @property
    def driver_version(self) -> str:
        """The version of the vendor's driver; empty if neither the library nor the name of its file tells."""
        try:
            return str(call("driver version", pynvml.nvmlSystemGetDriverVersion))
        except NvmlError as error:
            if not error.is_unexported:
                raise
        named = _NAMED_VERSION.search(os.path.realpath(self._library))
        return named[1] if named else ""

    @property
    def cuda_version(self) -> str:
        """The newest version of CUDA that the driver supports; empty if the library does not tell."""
        try:
            number = int(call("CUDA version", pynvml.nvmlSystemGetCudaDriverVersion))
        except NvmlError as error:
            if not error.is_unexported:
                raise
            return ""
        return f"{number // 1000}.{number % 1000 // 10}.0"

    def count(self) -> int:
        return plausible("count GPUs", int(call("count GPUs", pynvml.nvmlDeviceGetCount)), _MOST_GPUS)

    def device(self, index: int) -> Handle:
        return call("it cannot be opened", pynvml.nvmlDeviceGetHandleByIndex, index)

    def find(self, uuid: str) -> Handle:
        try:
            return call(f"GPU {uuid}", pynvml.nvmlDeviceGetHandleByUUID, uuid)
        except NvmlError as error:
            if not error.is_unexported:
                raise
        return self._find_among_all(uuid)

    def _find_among_all(self, uuid: str) -> Handle:
        for index in range(self.count()):
            # A GPU that is lost does not tell its UUID; the others are looked at.
            with suppress(NvmlError):
                handle = self.device(index)
                if call("UUID of a GPU", pynvml.nvmlDeviceGetUUID, handle) == uuid:
                    return handle
        raise NvmlError(f"GPU {uuid}", pynvml.NVML_ERROR_NOT_FOUND, "Not Found")


def _code(name: str) -> int:
    return int(getattr(pynvml, f"NVML_ERROR_{name}"))
