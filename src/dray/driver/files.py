"""Files that are replaced as a whole: written beside, made durable, and renamed; a reader sees the old or the new."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from dray.process.directories import sync_directory


def replace_file(
    path: Path, content: bytes, *, mode: int = 0o600, durable: bool = False, named: bool = True, prefix: str = "."
) -> None:
    """`durable` waits for the disk: afterwards the file is there even if the machine loses power.

    Without `named` it does not wait for the directory: then the former file may be there instead.
    """
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            if durable:
                file.flush()
                os.fsync(descriptor)
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    if durable and named:
        sync_directory(path.parent)


def remove_file(path: Path) -> bool:
    """Whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
