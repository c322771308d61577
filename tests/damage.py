"""Ways in which a file with state can be damaged or replaced on disk."""

import os
from pathlib import Path

NESTED = b'{"Data":' + b"[" * 100_000


def _replaced(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


def _sparse(path: Path) -> None:
    with open(_replaced(path), "wb") as file:
        file.truncate(1 << 40)


def _link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


DAMAGES = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256))),
    "wrong type": lambda path: path.write_bytes(b"[1, 2]"),
    "nested": lambda path: path.write_bytes(NESTED),
    "huge": _sparse,
    "directory": lambda path: _replaced(path).mkdir(),
    "pipe": lambda path: os.mkfifo(_replaced(path)),
    "link": _link,
    "link to nothing": lambda path: _replaced(path).symlink_to("nothing"),
}
"""By name: each replaces a file that is there."""
