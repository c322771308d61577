"""Processes of a container: all descendants of its shim, which is their subreaper."""

from __future__ import annotations

import contextlib
import os
import signal


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
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
    """Kills every process of the container, also those that are made meanwhile, and waits for them."""
    while True:
        send(signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
