"""Files of a volume that follow objects of the API server: configMap, secret, downwardAPI and projected.

    <volume>/..<random>/<file>          the files
    <volume>/..data -> ..<random>       moved to other files at once, so a container sees all old or all new ones
    <volume>/<file> -> ..data/<file>

Containers mount these volumes read-only. What is in the volume is still not believed: every step works on descriptors
and follows no symbolic link but those that stay in the volume.
"""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import ENAMETOOLONG
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from dray.node.errors import SetupError, shortened
from dray.process import beneath

_DATA: Final = "..data"
_NEW_DATA: Final = "..data_tmp"


class File(NamedTuple):
    content: bytes
    mode: int
    user: int | None = None
    """The owner, if it is not the agent's user; only root can change owners."""


def write_files(volume: Path, files: Mapping[str, File]) -> None:
    """Replaces all files of the volume atomically; writes nothing if nothing changed.

    Raises SetupError, which names the volume and the path that cannot be written.
    """
    for name in files:
        _check(volume.name, name)
    # As in a kubelet, "a/" means the file "a".
    files = {posixpath.normpath(name): file for name, file in files.items()}
    _check_directories(volume.name, files)
    with beneath.opened(volume) as place:
        if _is_current(place, files):
            return
        made = _made(place, volume.name, files)
        _link(place, _NEW_DATA, made)
        if not _target(place, _DATA):
            beneath.remove_tree(_DATA, parent=place)
        os.rename(_NEW_DATA, _DATA, src_dir_fd=place, dst_dir_fd=place)
        tops = {name.partition("/")[0] for name in files}
        for top in tops:
            if _target(place, top) != f"{_DATA}/{top}":
                _link(place, top, f"{_DATA}/{top}")
        _remove_others(place, {made, _DATA, *tops})


def _made(place: int, volume: str, files: Mapping[str, File]) -> str:
    """Makes a directory with the files and returns its name; leaves nothing behind on failure."""
    made = f"..{secrets.token_hex(8)}"
    os.mkdir(made, 0o755, dir_fd=place)
    try:
        with beneath.opened(made, parent=place) as directory:
            os.fchmod(directory, 0o755)
            for name, file in files.items():
                try:
                    _write(directory, name, file)
                except OSError as error:
                    advice = "; shorten it" if error.errno == ENAMETOOLONG else ""
                    problem = f"path {shortened(name)}: {error.strerror}{advice}"
                    raise SetupError("FailedMount", f"volume {volume}: {problem}") from None
    except BaseException:
        beneath.remove_tree(made, parent=place)
        raise
    return made


def _check(volume: str, name: str) -> None:
    """Raises SetupError for names that Kubernetes refuses: absolute ones, and those that contain or begin with ".."."""
    if name.startswith(("/", "..")) or ".." in name.split("/") or not name.strip("/."):
        raise SetupError("FailedMount", f"volume {volume}: path {shortened(name)} leads out of the volume")


def _check_directories(volume: str, files: Mapping[str, File]) -> None:
    """Raises SetupError for a path that is both a file and a directory. Sorting puts it right before such a path."""
    for above, below in pairwise(sorted(name.split("/") for name in files)):
        if below[: len(above)] == above:
            first, second = shortened("/".join(above)), shortened("/".join(below))
            problem = f"{first} is both a file and the directory of {second}; change one path"
            raise SetupError("FailedMount", f"volume {volume}: {problem}")


def _write(directory: int, name: str, file: File) -> None:
    parent, _, last = name.rpartition("/")
    user = file.user if file.user is not None and os.geteuid() == 0 else -1
    with beneath.closing(beneath.make_directories(directory, parent, 0o755)) as holder:
        beneath.write_new(holder, last, file.content, file.mode, user)


def _is_current(place: int, files: Mapping[str, File]) -> bool:
    """Returns True if the volume has exactly these files. Never reads more of a file than its expected size."""
    try:
        data = beneath.open_beneath(place, _DATA, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    with beneath.closing(data):
        there = sum(not entry.is_dir(follow_symlinks=False) for _, entry in beneath.walk(data))
        return there == len(files) and all(_has(data, name, file.content) for name, file in files.items())


def _has(data: int, name: str, content: bytes) -> bool:
    parent, _, last = name.rpartition("/")
    flags = os.O_RDONLY | os.O_DIRECTORY
    with suppress(OSError), beneath.closing(beneath.open_beneath(data, parent, flags, links=False)) as holder:
        return beneath.read_regular(last, len(content), directory=holder) == content
    return False


def _target(place: int, name: str) -> str:
    """Returns the target of a symbolic link; an empty string if it is not a link."""
    try:
        return os.readlink(name, dir_fd=place)
    except OSError:
        return ""


def _link(place: int, name: str, target: str) -> None:
    beneath.remove_tree(name, parent=place)
    os.symlink(target, name, dir_fd=place)


def _remove_others(place: int, kept: Iterable[str]) -> None:
    """Removes all entries that are not in `kept`: unwanted files, and directories of earlier writes."""
    for name in set(os.listdir(place)) - set(kept):
        beneath.remove_tree(name, parent=place)
