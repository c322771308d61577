"""What the kernel knows of a process and its descendants: who they are, their memory, and how long they had no CPU."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for each in found:
        # Any of them may be gone in the next moment.
        with contextlib.suppress(OSError):
            for children in list(Path(f"/proc/{each}/task").glob("*/children")):
                with contextlib.suppress(OSError):
                    found += map(int, children.read_text().split())
    return found


def resident(pid: int) -> int:
    """The bytes in memory of a process; 0 if there is none."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def is_running(pid: int, number: int) -> bool:
    """Whether the process is there; with SIGKILL it is ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number if number == signal.SIGKILL else 0)
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Starvation:
    """The seconds since it was made in which one of these processes could have computed, and other work had the CPUs.

    It is the largest of theirs, not the sum: while one waits for a CPU, others may wait beside it. Processes of lower
    priority than the first are left out: they are not meant to hold up anybody.
    """

    def __init__(self, pids: list[int]) -> None:
        priority = _niceness(pids[0])
        self._before = {pid: _waited(pid) for pid in pids if _niceness(pid) <= priority}

    @property
    def seconds(self) -> float:
        # Of processes that have ended meanwhile it is no longer known.
        return max(0.0, *(_waited(pid) - before for pid, before in self._before.items()))


def _waited(pid: int) -> float:
    nanoseconds = 0
    for each in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError):
            nanoseconds += int(each.read_text().split()[1])
    return nanoseconds / 1e9


def _niceness(pid: int) -> int:
    try:
        return os.getpriority(os.PRIO_PROCESS, pid)
    except OSError:
        return 0
