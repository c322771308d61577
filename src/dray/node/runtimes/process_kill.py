"""Killing of a container of the process runtime without the help of its shim, which may hang, be stopped or be gone.

The shim is stopped first, so that it neither starts nor waits for processes meanwhile; then all processes of the
container are killed; then the shim. Without control groups, processes of a shim that is gone are known by the session
of the container's first process and by the host name of the pod in their environment.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dray.node.cgroups import Cgroup
from dray.node.runtimes import shim_lock
from dray.node.runtimes.shim.processes import descendants
from dray.node.runtimes.shim_client import read_json
from dray.process.beneath import PROCESS_BYTES, read_start
from dray.process.ending import end_all

_PAUSE: Final = 0.02


async def kill(directory: Path, cgroup: Cgroup) -> None:
    """Kills the shim and all processes of the container; returns when none is left."""
    with _opened_shim(directory) as shim:
        if shim is not None:
            pid, descriptor = shim
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            await end_all(lambda: {*descendants(pid), *cgroup.members()}, called=directory.name)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            while shim_lock.is_held(directory):
                await asyncio.sleep(_PAUSE)
    await end_left(directory, cgroup)


async def end_left(directory: Path, cgroup: Cgroup) -> None:
    """Ends the remaining processes of a container whose shim has ended."""
    if cgroup.directories:
        await end_all(cgroup.members, called=directory.name)
    else:
        session = int((read_json(directory / "state.json") or {}).get("pid", 0))
        hostname = _hostname(read_json(directory / "spec.json"))
        if session and hostname:
            await end_all(lambda: _session_members(session, hostname), called=directory.name)


@contextmanager
def _opened_shim(directory: Path) -> Iterator[tuple[int, int] | None]:
    """Yields the shim's process id and an open descriptor of the process; None if it has ended."""
    found = read_json(directory / "state.json") or read_json(directory / "shim.json") or {}
    pid = int(found.get("shim", 0))
    try:
        descriptor = os.pidfd_open(pid) if pid > 0 else -1
    except ProcessLookupError:
        descriptor = -1
    try:
        # The shim holds the lock while it lives: if the lock is held now, the descriptor opened before is the shim's.
        yield (pid, descriptor) if descriptor >= 0 and shim_lock.is_held(directory) else None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _hostname(spec: dict[str, Any] | None) -> bytes:
    name = str(((spec or {}).get("environment") or {}).get("HOSTNAME") or "")
    return f"HOSTNAME={name}".encode() if name else b""


def _session_members(session: int, hostname: bytes) -> Iterable[int]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, IndexError, ValueError):
                place = Path("/proc", entry)
                words = (place / "stat").read_text().rpartition(")")[2].split()
                if int(words[3]) == session and hostname in read_start(place / "environ", PROCESS_BYTES).split(b"\0"):
                    yield int(entry)
