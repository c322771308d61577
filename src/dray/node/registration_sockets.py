"""Registration sockets: the unix sockets below a plugin registry directory, each with the identity of its file.

A name that begins with a dot is passed over, and so is whatever is not a socket. A socket that was removed and made
again has another identity, so a driver that restarts under the same path is noticed even when both happened between
two scans. The identity leaves the time of the last status change out: a driver may change the mode of its socket.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

Identity = tuple[int, int, int]
"""Device, inode and time of creation."""


def registration_sockets(directory: Path) -> dict[Path, Identity]:
    """Returns the present sockets, oldest first, which is the order in which their plugins started."""
    found: dict[Path, Identity] = {}
    for parent, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(parent, name)
            if not name.startswith(".") and (identity := _identity(path)) is not None:
                found[path] = identity
    return dict(sorted(found.items(), key=lambda item: item[1][2]))


def _identity(path: Path) -> Identity | None:
    try:
        entry = path.lstat()
    except OSError:
        return None
    return (entry.st_dev, entry.st_ino, entry.st_mtime_ns) if stat.S_ISSOCK(entry.st_mode) else None
