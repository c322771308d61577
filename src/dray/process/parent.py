"""Parent of this process: a child that serves one process alone ends with it, however that process ends."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
# Process, user and group of whoever made a pair of sockets.
_CREDENTIALS: Final = struct.Struct("iII")


def die_with_parent(parent: int = 0) -> None:
    """The kernel kills this process when its parent ends.

    The parent may have ended before the kernel was told. With its id, this process ends at once then.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl: {os.strerror(number)}")
    if parent and os.getppid() != parent:
        os._exit(1)


def maker_of(end: socket.socket) -> int:
    """The id of the process that made the pair of sockets of which this is one end; 0 where the system cannot tell."""
    if sys.platform != "linux":
        return 0
    pid, _, _ = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)
