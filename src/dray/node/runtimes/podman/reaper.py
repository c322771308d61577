"""Reaper: removes the containers and control groups of a runtime once a process has ended, however it ended.

For clusters whose pods end with them: whoever is killed removes nothing. It is a process of its own, in a session of
its own; where one waits already for the same directory, the next one leaves.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import dray
from dray.node.runtimes.podman import labels
from dray.node.runtimes.podman.command import Podman

_PROGRAM: Final = """
import fcntl, os, select, subprocess, sys, time
pid, lock, source, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
podman, listing = sys.argv[5 : 5 + count], sys.argv[5 + count :]
held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit()
try:
    select.select([os.pidfd_open(pid)], [], [])
except ProcessLookupError:
    pass
sys.path.insert(0, source)
from dray.node.cgroups import remove_below
pods = set()
for again in range(5):
    lines = subprocess.run([*podman, *listing], capture_output=True, text=True).stdout.splitlines()
    found = [each.split() for each in lines]
    pods.update(words[1] for words in found if len(words) > 1)
    if found:
        ids = [words[0] for words in found]
        subprocess.run([*podman, "rm", "--force", "--time", "0", "--volumes", "--ignore", "--depend", *ids])
    time.sleep(1)
    for uid in pods:
        remove_below(f"dray/{uid}")
"""


def start(podman: Podman, root: Path, pid: int) -> None:
    """Starts a reaper that removes the containers of the runtime in `root` once process `pid` has ended."""
    command = podman.arguments()
    shown = f'{{{{.ID}}}} {{{{index .Labels "{labels.POD_UID}"}}}}'
    listing = ["ps", "--all", "--no-trunc", "--format", shown, "--filter", f"label={labels.ROOT}={root}"]
    reaper = subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-c", _PROGRAM, str(pid), str(root / "reaper.lock")),
            *(str(Path(dray.__file__).parent.parent), str(len(command)), *command, *listing),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    # Popen must not wait for it or warn about it: the reaper outlives this process.
    reaper.returncode = 0
