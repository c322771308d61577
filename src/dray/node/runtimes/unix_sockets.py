"""Connections to unix sockets in directories whose paths may be long."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def connect(directory: Path, name: str, kind: socket.SocketKind) -> socket.socket:
    """Connects to the socket without blocking. Raises OSError if nothing listens or the backlog is full."""
    # Connect through a descriptor, because the path of a socket is limited to 107 bytes.
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = socket.socket(socket.AF_UNIX, kind)
    try:
        found.setblocking(False)
        found.connect(f"/proc/self/fd/{opened}/{name}")
        return found
    except OSError:
        found.close()
        raise
    finally:
        os.close(opened)
