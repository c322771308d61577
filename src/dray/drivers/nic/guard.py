"""The guard of a driver: when the driver has ended, however it ended, it brings interfaces back as their pods end.

    python -m dray.drivers.nic.guard PID STATE OWNER

A process of its own, since a driver that is killed brings back nothing. It waits for the end of the driver, and then
for that of each pod; it leaves once the driver is there again, or nothing is left to bring back.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_SECONDS: Final = 1.0


def start(state: Path, owner: Path) -> subprocess.Popen[bytes]:
    """Starts a guard process for this process."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(os.getpid()), str(state), str(owner)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def leave(guard: subprocess.Popen[bytes], *, needed: bool) -> None:
    """At the end of the driver. Where pods have interfaces the guard outlives it, and is waited for by nobody."""
    if needed:
        guard.returncode = 0
    else:
        guard.kill()
        guard.wait()


def main(pid: int, state: Path, owner: Path) -> None:
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    # A later driver of this directory has a guard of its own.
    name = hashlib.sha256(str(owner).encode()).hexdigest()[:16]
    lock = os.open(state / f"guard-{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _guard(state, owner)


def _guard(state: Path, owner: Path) -> None:
    # Most drivers are never killed: what this needs is loaded when it is needed.
    from dray.drivers.nic.attachment import Attachments
    from dray.drivers.nic.recovery import is_running, recover

    attachments = Attachments(state)
    while not is_running(owner) and any(attachment.owner == str(owner) for attachment in attachments.all()):
        # By the rules for what another driver has left.
        recover(attachments, Path())
        time.sleep(_SECONDS)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
