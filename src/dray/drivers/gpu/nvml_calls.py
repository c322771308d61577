"""Calls of NVML, each in a thread and with a time limit; a failed call raises NvmlError.

A call that does not return in time is given up: the caller gets an NvmlError and the thread is left behind. Until it
returns, the same function with the same first argument fails at once, so a GPU that hangs costs one thread for each
function. The threads are daemons, so the process can end without them.

NVML is one library with one session per process, so the registry of running calls is global too.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final

from dray.driver import DriverError
from dray.drivers.gpu.binding import pynvml

_ABSENT: Final = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND")
# Functions that libraries of older drivers do not have.
_NEWER: Final = frozenset(
    {
        "nvmlDeviceGetAddressingMode",
        "nvmlDeviceGetArchitecture",
        "nvmlDeviceGetAttributes",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetGpuInstancePossiblePlacements",
        "nvmlDeviceGetGpuInstanceProfileInfo",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetVirtualizationMode",
        "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    }
)
# Functions that NVML may refuse to users other than root.
_RESTRICTED: Final = frozenset(
    {
        "nvmlDeviceGetAttributes",
        "nvmlDeviceGetGpuInstancePossiblePlacements",
        "nvmlDeviceGetGpuInstanceProfileInfo",
        "nvmlDeviceGetPerformanceState",
    }
)
_GONE: Final = ("GPU_IS_LOST", "NOT_FOUND", "GPU_NOT_FOUND")
_SESSION_LOST: Final = ("UNINITIALIZED", "DRIVER_NOT_LOADED", "LIB_RM_VERSION_MISMATCH")
# With so many calls that hang, the library itself hangs: further calls get only this many seconds.
_MANY: Final = 3
_SHORT_SECONDS: Final = 0.5


class NvmlError(DriverError):
    """A call of NVML failed. `code` is its nvmlReturn_t; `is_hanging` if the call did not return in time.

    `is_gone` if the GPU is lost or not there, `is_absent` if the driver or the GPU does not have the function,
    `is_unexported` if the library does not even have its symbol, and `is_session_lost` if the session with the kernel
    driver has to be opened again.
    """

    def __init__(
        self, doing: str, code: int, text: str, *, is_hanging: bool = False, is_unexported: bool = False
    ) -> None:
        super().__init__(f"{doing}: {text}" if is_hanging else f"{doing}: {text} (NVML error {code})")
        self.code = code
        self.is_hanging = is_hanging
        self.is_unexported = is_unexported
        self.is_gone = code in _codes(_GONE)
        self.is_absent = code in _codes(_ABSENT)
        self.is_session_lost = code in _codes(_SESSION_LOST)
        self.is_timeout = code == pynvml.NVML_ERROR_TIMEOUT and not is_hanging
        self.is_not_found = code == pynvml.NVML_ERROR_NOT_FOUND
        self.is_forbidden = code == pynvml.NVML_ERROR_NO_PERMISSION
        self.is_invalid = code == pynvml.NVML_ERROR_INVALID_ARGUMENT
        self.is_too_small = code == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        self.is_unknown = code == pynvml.NVML_ERROR_UNKNOWN


def _codes(names: Iterable[str]) -> set[int]:
    return {getattr(pynvml, f"NVML_ERROR_{name}") for name in names}


@dataclass(eq=False, slots=True)
class _Job:
    key: Hashable
    work: Callable[[], Any]
    late: Callable[[], object] | None
    started: float
    ended: threading.Event = field(default_factory=threading.Event)
    is_given_up: bool = False
    result: Any = None
    error: BaseException | None = None


class _Worker(threading.Thread):
    def __init__(self, calls: LimitedCalls) -> None:
        super().__init__(name="nvml", daemon=True)
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self._calls = calls
        self.start()

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            try:
                job.result = job.work()
            except BaseException as error:
                job.error = error
            self._calls.end(job, self)


class TimedOut(Exception):
    """The call did not return in time, or an earlier one of the same kind has not returned yet."""


class LimitedCalls:
    """`seconds` is the limit of a call that only reads; others have multiples of it."""

    def __init__(self) -> None:
        self.seconds = 5.0
        self.session_error: NvmlError | None = None
        """The latest error that says that the session is lost; the session takes it away when it is opened again."""
        self._deadline = threading.local()
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self.hanging: dict[Hashable, _Job] = {}
        """Calls that were given up and have not returned."""

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limits all calls of this thread together; those that come too late fail."""
        self._deadline.end = time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline.end = None

    def _limit(self, seconds: float) -> float:
        end = getattr(self._deadline, "end", None)
        left = seconds if end is None else min(seconds, end - time.monotonic())
        return left if len(self.hanging) < _MANY else min(left, _SHORT_SECONDS)

    def run(self, seconds: float, work: Callable[[], Any], key: Hashable, late: Callable[[], object] | None) -> Any:
        """Runs `work`. `late` is called if it succeeds after it was given up. Raises TimedOut."""
        with self._lock:
            before = self.hanging.get(key)
            if before is not None:
                raise TimedOut(f"an earlier call has not returned for {time.monotonic() - before.started:.0f} s")
            limit = self._limit(seconds)
            if limit <= 0:
                raise TimedOut("calls before it took too long")
            worker = self._idle.pop() if self._idle else _Worker(self)
        job = _Job(key, work, late, time.monotonic())
        worker.jobs.put(job)
        if not job.ended.wait(limit) and self._give_up(job):
            raise TimedOut(f"no answer in {limit:.1f} s")
        if job.error is not None:
            raise job.error
        return job.result

    def _give_up(self, job: _Job) -> bool:
        """Returns False if the call has returned in the last moment."""
        with self._lock:
            if job.ended.is_set():
                return False
            job.is_given_up = True
            self.hanging[job.key] = job
            return True

    def end(self, job: _Job, worker: _Worker) -> None:
        with self._lock:
            is_late = job.is_given_up and job.error is None
        if is_late and job.late is not None:
            with suppress(Exception):
                job.late()
        with self._lock:
            self.hanging.pop(job.key, None)
            self._idle.append(worker)
            job.ended.set()


CALLS: Final = LimitedCalls()


def call(
    doing: str,
    function: Callable[..., Any],
    *arguments: Any,
    seconds: float | None = None,
    late: Callable[[], object] | None = None,
) -> Any:
    """Calls a function of pynvml. `doing` names the call and the GPU in the error."""

    def work() -> Any:
        try:
            return function(*arguments)
        except pynvml.NVMLError as error:
            # The text may need a call of its own. A missing symbol raises AttributeError first.
            is_unexported = isinstance(error.__context__, AttributeError)
            return NvmlError(doing, error.value, str(error), is_unexported=is_unexported)
        except (ValueError, TypeError, ctypes.ArgumentError) as error:
            return NvmlError(doing, pynvml.NVML_ERROR_UNKNOWN, f"the answer cannot be read: {error}")

    key = getattr(function, "__name__", ""), _identity(arguments[0]) if arguments else None
    try:
        result = CALLS.run(CALLS.seconds if seconds is None else seconds, work, key, late)
    except TimedOut as error:
        raise NvmlError(doing, pynvml.NVML_ERROR_TIMEOUT, str(error), is_hanging=True) from None
    if isinstance(result, NvmlError):
        if result.is_session_lost:
            CALLS.session_error = result
        raise result
    return result


def plausible(doing: str, number: int, most: int) -> int:
    """Returns a number that NVML told. Raises NvmlError if it is larger than any that makes sense."""
    if number > most:
        text = f"the answer cannot be right: {number} of them, and there are {most} at most"
        raise NvmlError(doing, pynvml.NVML_ERROR_UNKNOWN, text)
    return number


def optional(doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns None if the driver or the GPU does not have the function, or does not let this user call it.

    Which errors say so depends on the function. INVALID_ARGUMENT never does.
    """
    try:
        return call(doing, function, *arguments)
    except NvmlError as error:
        if not may_lack(function, error):
            raise
        return None


def may_lack(function: Callable[..., Any], error: NvmlError) -> bool:
    """Returns whether a healthy GPU may answer a call of this function with this error."""
    name = getattr(function, "__name__", "")
    if error.is_unexported:
        return True
    if error.is_forbidden:
        return name in _RESTRICTED
    return error.is_absent and (name in _NEWER or error.code == pynvml.NVML_ERROR_NOT_SUPPORTED)


def change(doing: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that changes the GPU, which may take longer: a change of the MIG mode resets the GPU."""
    return call(doing, function, *arguments, seconds=4 * CALLS.seconds)


def _identity(argument: Any) -> Hashable:
    """Tells handles of different GPUs apart; they are pointers."""
    if isinstance(argument, str | bytes | int):
        return argument
    with suppress(ctypes.ArgumentError, TypeError):
        return ctypes.cast(argument, ctypes.c_void_p).value
    return None
