"""Rotation of a container's log: NAME becomes NAME.1, that NAME.2, up to a number of files; older ones go."""

from __future__ import annotations

import contextlib
import os

SIZE = 10 << 20
"""Largest size of one log file, in bytes."""
FILES = 5


def rotate(path: str, files: int) -> None:
    """Renames the log and its older files; its writer must open a new file."""
    for number in range(files - 1, 0, -1):
        older = f"{path}.{number - 1}" if number > 1 else path
        with contextlib.suppress(FileNotFoundError):
            os.rename(older, f"{path}.{number}")
    if files <= 1:
        os.unlink(path)
