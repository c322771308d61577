"""Eviction signals: how much memory, disk, inodes and process ids the machine has left."""

from __future__ import annotations

import os
from pathlib import Path

from dray.node.eviction.thresholds import DISK, INODES, MEMORY, PIDS, Observation


def observe(root: Path) -> dict[str, Observation]:
    """Returns what is left of each resource; `root` is on the node's file system."""
    disk = os.statvfs(root)
    found = {
        MEMORY: Observation(memory("MemAvailable"), memory("MemTotal")),
        DISK: Observation(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize),
        PIDS: _process_ids(),
    }
    if disk.f_files:
        # Some file systems, such as btrfs, do not count inodes.
        found[INODES] = Observation(disk.f_favail, disk.f_files)
    return found


def memory(name: str) -> int:
    """Returns a value of /proc/meminfo in bytes."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
    return 0


def _process_ids() -> Observation:
    most = min(int(Path(f"/proc/sys/kernel/{name}").read_text()) for name in ("pid_max", "threads-max"))
    # The fourth word has the running and the existing tasks.
    there = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return Observation(most - there, most)
