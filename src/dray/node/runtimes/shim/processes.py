"""Processes of a container: all descendants of its shim, which is their subreaper."""

from __future__ import annotations

import contextlib
import os
import signal
import time

_GROUP_SECONDS = 10.0
_PAUSE = 0.01


def descendants(pid: int) -> list[int]:
    """Returns the children of the process, their children, and so on."""
    found, waiting = [], [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def send(number: int) -> None:
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all() -> None:
    """Kills every process of the container, including new ones, and waits for them."""
    while True:
        send(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def end_groups(cgroups: list[str]) -> None:
    """Kills every process in these control groups and below them, and waits until they are empty.

    Gives up after some seconds: a process that hangs in the kernel is left to the agent.
    """
    end = time.monotonic() + _GROUP_SECONDS
    while (found := [pid for cgroup in cgroups for pid in _members(cgroup)]) and time.monotonic() < end:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def remove_groups(cgroups: list[str]) -> None:
    """Removes the control groups of a container and those below; also that of the pod, if it is empty then."""
    for cgroup in cgroups:
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(cgroup))


def _members(cgroup: str) -> list[int]:
    found: list[int] = []
    for directory, _, _ in os.walk(cgroup):
        with contextlib.suppress(OSError), open(os.path.join(directory, "cgroup.procs")) as file:
            found += map(int, file.read().split())
    return found
