"""Execution of a command in a container of podman, which ends when its client leaves.

Podman's own exec leaves the command running when it is killed. The command and all that it starts are found again by
a variable in their environment. One look is not enough: a process may fork or execute between the look and its end,
and conmon starts the command although podman was killed before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Sequence
from typing import Final

from dray.node.cgroups import cgroup_at
from dray.node.runtimes import streamed_command
from dray.node.runtimes.cancelling import finished
from dray.node.runtimes.interface import StartError, Streams
from dray.node.runtimes.podman.command import Podman, too_long
from dray.node.runtimes.podman.found import FoundContainer
from dray.process.beneath import PROCESS_BYTES, read_start

_MARK: Final = "DRAY_EXEC"
_PAUSE: Final = 0.05
_CLEAN_LOOKS: Final = 3
# Number of looks at most for a command that has not appeared yet.
_MAX_LOOKS: Final = 60


async def execute(
    podman: Podman, container: FoundContainer, command: Sequence[str], streams: Streams, *, tty: bool, stdin: bool
) -> int:
    if problem := too_long(command):
        raise StartError("ContainerCannotRun", problem)
    mark = f"{_MARK}={uuid.uuid4()}"
    flags = [*(["--tty"] if tty else []), *(["--interactive"] if stdin or tty else [])]
    arguments = podman.arguments("exec", "--env", mark, "--detach-keys", "", *flags, container.id, *command)
    try:
        # With a terminal the open files are closed anyway.
        clean = arguments if tty else streamed_command.without_files(arguments)
        return await streamed_command.run(clean, streams, tty=tty, stdin=stdin)
    except BaseException:
        await finished(_end(container.cgroup, mark))
        raise


async def _end(cgroup: str, mark: str) -> None:
    seen, clean = False, 0
    for _ in range(_MAX_LOOKS):
        if _kill(cgroup, mark):
            seen, clean = True, 0
        else:
            clean += 1
        if seen and clean == _CLEAN_LOOKS:
            return
        await asyncio.sleep(_PAUSE)


def _kill(cgroup: str, mark: str) -> bool:
    """Kills processes of the command. Returns True if there was one."""
    found = False
    for pid in cgroup_at(cgroup).processes():
        with contextlib.suppress(OSError):
            if mark.encode() in read_start(f"/proc/{pid}/environ", PROCESS_BYTES).split(b"\0"):
                found = True
                os.kill(pid, 9)
    return found
