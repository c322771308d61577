"""Size of a terminal."""

from __future__ import annotations

import fcntl
import struct
import termios


def resize(descriptor: int, columns: int, rows: int) -> None:
    """Sets the size of the terminal; its foreground processes get SIGWINCH."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows & 0xFFFF, columns & 0xFFFF, 0, 0))
