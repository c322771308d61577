"""Starts a control daemon of MPS: `python -m dray.drivers.gpu.mps_launch PARENT SHM COMMAND…`, as a process of its own.

A daemon and its clients exchange memory through `/dev/shm`. With a directory SHM the daemon sees that one there, in a
mount namespace of its own. If the driver PARENT dies before the daemon is on its own, the start is given up, so that
no daemon appears after somebody has looked whether there is one.
"""

from __future__ import annotations

import os
import sys

from dray.node.runtimes.shim import system


def launch(parent: int, shm: str, command: list[str]) -> None:
    """Does not return."""
    system.die_with_parent()
    if os.getppid() != parent:
        sys.exit("the driver that started this has ended")
    if shm:
        system.unshare(system.CLONE_NEWNS)
        system.mount("none", "/", flags=system.MS_REC | system.MS_SLAVE)
        system.bind(shm, "/dev/shm")
    os.execv(command[0], command)


if __name__ == "__main__":
    try:
        launch(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    except OSError as error:
        sys.exit(f"{error.strerror}; run the driver with the right to mount, or set mpsSharedMemory=host")
