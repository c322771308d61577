"""Directories on disk."""

from __future__ import annotations

import os
from errno import ENAMETOOLONG
from pathlib import Path
from typing import Final

_LONGEST_PATH: Final = 4096


def make_path(path: Path | str, mode: int = 0o777) -> None:
    """Makes a directory with that mode, and those above it that are missing; it may be there already.

    Path.mkdir and os.makedirs do this by recursion, and a pod may name a path of more directories than Python recurses.
    """
    place = os.fspath(path)
    if len(os.fsencode(place)) >= _LONGEST_PATH:
        raise OSError(ENAMETOOLONG, os.strerror(ENAMETOOLONG), place)
    missing: list[str] = []
    while not os.path.isdir(place):
        missing.append(place)
        place = os.path.dirname(place)
    while missing:
        place = missing.pop()
        try:
            os.mkdir(place, 0o777 if missing else mode)
        except FileExistsError:
            if not os.path.isdir(place):
                raise


def sync_directory(path: Path) -> None:
    """Returns when the names in it would survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
