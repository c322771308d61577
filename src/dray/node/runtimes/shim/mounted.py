"""Mounts of this process: under which names a file can be reached that several mounts show."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")


class File(NamedTuple):
    device: str
    """The file system, as major:minor."""
    path: str
    """The path from the root of the file system."""
    identity: tuple[int, int]


class _Mount(NamedTuple):
    device: str
    root: str
    place: str


def files(paths: Iterable[str]) -> list[File]:
    """Returns the records that `places` needs to find these files under other paths; leaves out missing files."""
    mounts = list(_mounts())
    found = []
    for path in map(os.path.realpath, paths):
        identity = _identity(path)
        # Of several mounts at one place, only the last is visible.
        holders = [mount for mount in mounts if _beneath(path, mount.place) is not None]
        if identity is not None and holders:
            holder = max(reversed(holders), key=lambda mount: len(mount.place))
            inner = holder.root.rstrip("/") + str(_beneath(path, holder.place))
            found.append(File(holder.device, inner, identity))
    return found


def places(known: Iterable[File]) -> list[str]:
    """Returns all paths at which the files can be reached now."""
    wanted = list(known)
    if not wanted:
        return []
    found = []
    for mount in _mounts():
        for file in wanted:
            rest = _beneath(file.path, mount.root) if file.device == mount.device else None
            place = mount.place.rstrip("/") + rest if rest is not None else ""
            if place and _identity(place) == file.identity:
                found.append(place)
    return list(dict.fromkeys(found))


def _beneath(path: str, directory: str) -> str | None:
    """Returns the rest of the path below the directory, empty for the directory itself; None for other paths."""
    start = directory.rstrip("/")
    rest = path[len(start) :]
    return rest if path.startswith(start) and rest[:1] in ("", "/") else None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _mounts() -> Iterator[_Mount]:
    with open("/proc/self/mountinfo", errors="surrogateescape") as lines:
        for line in lines:
            _, _, device, root, place = line.split(" ")[:5]
            yield _Mount(device, _unescaped(root), _unescaped(place))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
