"""Identity of a process: its number alone is used again and again, with the moment of its start it is not."""

from __future__ import annotations

import os
import time
from pathlib import Path


def started_at(pid: int) -> str:
    """The moment in the kernel's count; empty where there is no such process."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A process that has ended and was not waited for yet is gone for everybody else.
    return "" if words[0] == "Z" else words[19]


def is_exiting(pid: int) -> bool:
    """Whether the process is gone or about to be: its memory is given back, though others may not have seen its end."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True


def age() -> float:
    """Seconds since this process began; none where that cannot be told."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started_at(os.getpid())) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, ValueError):
        return 0.0
