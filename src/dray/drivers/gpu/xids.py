"""XID errors of a GPU, and when they are over.

An XID is the number of an error in the log of the vendor's driver. Some are the fault of the application that ran, and
are shown without keeping anybody off. An uncorrectable memory error counts as XID 48.

An error of an application is over after some time without another. So is an error of the GPU if the driver states that
the GPU needs no recovery (no reset, no reboot), and no row of its memory waits to be replaced. A driver that does not
state it leaves the question open: then the error stays until the GPU was lost and is back, the kernel module was
reloaded, NVML was released for a reset, or this driver is restarted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.known_answers import Ask
from dray.drivers.gpu.nvml_calls import NvmlError
from dray.drivers.gpu.nvml_session import Handle

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
UNCORRECTABLE: Final = 48
# Errors that the GPU has dealt with itself: rows of memory that were replaced, and errors that were contained.
_CONTAINED: Final = frozenset({63, 92, 94})


@dataclass(slots=True)
class XidErrors:
    """`times` is when each error came last, by device (empty for all of the GPU) and XID.

    `harmless` are XIDs of applications; they end after `seconds` without another.
    """

    harmless: frozenset[int]
    seconds: float
    times: dict[tuple[str, int], float] = field(default_factory=dict)

    def add(self, device: str, xid: int, now: float) -> None:
        self.times[device, xid] = now

    def of(self, device: str, whole: str) -> tuple[list[int], list[int]]:
        """Errors of the GPU and errors of applications on a device, the latest last. The whole GPU has all."""
        newest = sorted(self.times.items(), key=lambda item: item[1])
        xids = [xid for (place, xid), _ in newest if device == whole or place in ("", device)]
        return [xid for xid in xids if xid not in self.harmless], [xid for xid in xids if xid in self.harmless]

    def forget_old(self, handle: Handle, ask: Ask, now: float) -> list[tuple[str, int]]:
        """Forgets errors that are over, and returns them."""
        if not self.seconds:
            return []
        old = [key for key, last in self.times.items() if last <= now - self.seconds]
        if not old:
            return []
        needs_repair = _needs_repair(handle, ask)
        over = [key for key in old if needs_repair is False or (needs_repair is None and self._ends_itself(key[1]))]
        for key in over:
            del self.times[key]
        return over

    def _ends_itself(self, xid: int) -> bool:
        return xid in self.harmless or xid in _CONTAINED

    def forget_all(self) -> list[tuple[str, int]]:
        """Forgets the errors of a GPU that was reset or whose driver was reloaded."""
        over = list(self.times)
        self.times.clear()
        return over


def _needs_repair(handle: Handle, ask: Ask) -> bool | None:
    """Whether the driver asks for a reset or a reboot, or memory waits to be replaced; None if it does not say."""
    try:
        rows = ask("remapped rows", pynvml.nvmlDeviceGetRemappedRows, handle)
        if rows is not None and (rows[2] or rows[3]):
            return True
        field_id = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        values: Sequence[Any] = ask("recovery action", pynvml.nvmlDeviceGetFieldValues, handle, [field_id]) or ()
    except NvmlError:
        return True
    known = [value.value.uiVal for value in values if value.nvmlReturn == pynvml.NVML_SUCCESS]
    if not known:
        return None
    return any(action != pynvml.NVML_GPU_RECOVERY_ACTION_NONE for action in known)
