"""Files beneath a directory that somebody else writes, such as a container in its volume.

Whoever writes there can put a symbolic link in the place of any name, at any moment. A path that was checked is
therefore no longer the path that is used. These functions resolve a path once, beneath the descriptor of a directory,
and work on the descriptor that they get: openat2 with RESOLVE_BENEATH, or one component after the other where the
kernel (before 5.6) or a filter lacks that call. Relative links that stay beneath the directory are followed; a path
that leads out raises OSError with EXDEV.

Reads have a limit and take regular files alone: a sparse file has any size, and a pipe never ends. Removal never
follows a link, never enters another mount, and needs three descriptors however deep the directories are.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from errno import EAGAIN, EFBIG, EINVAL, ELOOP, ENAMETOOLONG, EXDEV
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

_OPENAT2: Final = 437
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_ANYWHERE: Final = -100
# A path with ".." is looked at again when anything on the machine was renamed meanwhile.
_TRIES: Final = 200
_MOST_LINKS: Final = 40
_LONGEST_PATH: Final = 4096
# Removal ends although somebody goes on writing.
_MOST_LEVELS: Final = 100_000
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

PROCESS_BYTES: Final = 8 << 20
"""More than the arguments and the environment of a new process can have; later it may claim to have any number."""

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# Open


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened(path: Path | str, flags: int = _DIRECTORY, *, parent: int | None = None) -> AbstractContextManager[int]:
    """Opens a path and closes it at the end; without other flags, a directory that is not a symbolic link."""
    return closing(os.open(path, flags, dir_fd=parent))


def open_beneath(root: int, path: str, flags: int = os.O_PATH, *, links: bool = True, mounts: bool = True) -> int:
    """Opens what is there.

    Without `links` a symbolic link in the path raises OSError with ELOOP; without `mounts` what is in another mount
    than the directory raises OSError with EXDEV.
    """
    if "\0" in path:
        raise ValueError("embedded null byte")
    if path.startswith("/"):
        raise _error(EXDEV, path)
    if len(os.fsencode(path)) >= _LONGEST_PATH:
        raise _error(ENAMETOOLONG, path[:100])
    if not has_openat2():
        return _open_by_component(root, path, flags, links=links, mounts=mounts)
    resolve = _BENEATH | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS) | (0 if mounts else _NO_XDEV)
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            return _openat2(root, path, flags, resolve)
    raise _error(EAGAIN, path)


@cache
def has_openat2() -> bool:
    """Whether the kernel has the call, and no filter keeps this process from it."""
    try:
        os.close(_openat2(_ANYWHERE, "/", os.O_PATH, 0))
    except OSError:
        return False
    return True


def _openat2(root: int, path: str, flags: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    arguments = (ctypes.c_char_p(os.fsencode(path or ".")), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
    found = int(_libc.syscall(ctypes.c_long(_OPENAT2), ctypes.c_int(root), *arguments))
    if found < 0:
        raise _error(ctypes.get_errno(), path)
    return found


def _open_by_component(root: int, path: str, flags: int, *, links: bool, mounts: bool) -> int:
    """The same without openat2. The kernel never sees "..": the way back is the descriptor that led here."""
    way = [os.dup(root)]
    waiting = _components(path)[::-1]
    followed = 0
    try:
        while waiting:
            name = waiting.pop()
            if name == "..":
                if len(way) == 1:
                    raise _error(EXDEV, path)
                os.close(way.pop())
                continue
            way.append(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=way[-1]))
            if stat.S_ISLNK(os.fstat(way[-1]).st_mode):
                target = os.readlink("", dir_fd=way[-1])
                os.close(way.pop())
                followed += 1
                if not links or followed > _MOST_LINKS:
                    raise _error(ELOOP, path)
                if target.startswith("/"):
                    raise _error(EXDEV, path)
                waiting += _components(target)[::-1]
        if not mounts and _mount(way[-1]) != _mount(root):
            raise _error(EXDEV, path)
        return os.open(_by_descriptor(way[-1]), flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        for descriptor in way:
            os.close(descriptor)


def _mount(descriptor: int) -> bytes:
    """The id of the mount that a descriptor is in."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as lines:
        return next((line for line in lines if line.startswith(b"mnt_id:")), b"")


def _components(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _by_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _error(number: int, path: str, text: str = "") -> OSError:
    return OSError(number, text or os.strerror(number), path)


# Make and change


def make_directories(root: int, path: str, mode: int) -> int:
    """Opens what is there as O_PATH, and makes the directories that are missing with that mode, whatever the umask.

    A symbolic link to nothing raises FileNotFoundError: nothing is made where it leads.
    """
    if path.startswith("/"):
        raise _error(EXDEV, path)
    names = _components(path)
    before = -1
    while before < (there := _number_there(root, names)) < len(names):
        before = there
        with closing(open_beneath(root, "/".join(names[:there]), os.O_PATH | os.O_DIRECTORY)) as parent:
            _make_nested(parent, names[there:], mode)
    return open_beneath(root, "/".join(names))


def _number_there(root: int, names: list[str]) -> int:
    """The number of leading names that can be opened: a path may have thousands, and opening each takes seconds."""
    least, most = 0, len(names)
    count = most
    while least < most:
        try:
            os.close(open_beneath(root, "/".join(names[:count])))
            least = count
        except FileNotFoundError:
            most = count - 1
        count = (least + most + 1) // 2
    return least


def _make_nested(parent: int, names: list[str], mode: int) -> None:
    """Makes directories in each other, up to a name that is there: another process made it, or it is a link."""
    holder = os.dup(parent)
    try:
        for name in names:
            try:
                os.mkdir(name, mode, dir_fd=holder)
            except FileExistsError:
                return
            made = os.open(name, _DIRECTORY, dir_fd=holder)
            os.close(holder)
            holder = made
            os.fchmod(holder, mode)
    finally:
        os.close(holder)


def write_new(directory: int, name: str, content: bytes, mode: int, user: int = -1) -> None:
    """Writes a file that is not there yet, of a user if one is given."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(content)
        os.fchown(file.fileno(), user, -1)
        os.fchmod(file.fileno(), mode)


def give_to_group(directory: int, name: str, group: int, file_mode: int, directory_mode: int) -> None:
    """Changes the group of one file or directory and adds to its mode; a symbolic link stays as it is."""
    with opened(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, parent=directory) as found:
        mode = os.fstat(found).st_mode
        if not stat.S_ISLNK(mode):
            os.chown(_by_descriptor(found), -1, group)
            os.chmod(_by_descriptor(found), stat.S_IMODE(mode) | (directory_mode if stat.S_ISDIR(mode) else file_mode))


# Read


def open_regular(path: Path | str, *, directory: int | None = None, links: bool = False) -> BinaryIO:
    """Opens a regular file to read; raises OSError for a pipe, a device, and without `links` for a symbolic link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == ELOOP and not links:
            raise _error(ELOOP, str(path), "is a symbolic link") from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _error(EINVAL, str(path), "is not a regular file")
    return open(descriptor, "rb")


def read_regular(path: Path | str, limit: int, *, directory: int | None = None, links: bool = False) -> bytes:
    """Reads all of a regular file; raises OSError as `open_regular` does, and for a file of more bytes."""
    with open_regular(path, directory=directory, links=links) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise _error(EFBIG, str(path), f"has more than {limit} bytes")
    return content


def read_start(path: Path | str, limit: int) -> bytes:
    """Reads the first bytes of a regular file, or of one in /proc, whose size a process decides itself."""
    with open_regular(path) as file:
        return file.read(limit)


def walk(root: int) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Everything beneath the directory, each with the descriptor of the directory that it is in.

    No symbolic link is followed and no other mount entered. What vanishes meanwhile is left out, and so is what lies
    deeper than a path may be long.
    """
    waiting = ["."]
    while waiting:
        here = waiting.pop()
        try:
            directory = _open_directory(root, here)
        except OSError:
            continue
        with closing(directory), os.scandir(directory) as entries:
            for entry in entries:
                yield directory, entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{here}/{entry.name}")


def _open_directory(parent: int, path: str) -> int:
    """Opens a directory of the same mount, without following symbolic links."""
    return open_beneath(parent, path, _DIRECTORY, links=False, mounts=False)


# Remove


def remove_tree(path: Path | str, *, parent: int | None = None) -> bool:
    """Removes a file, a link, or a directory tree. Returns True if nothing is left."""
    place = Path(path)
    if parent is None:
        try:
            with opened(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as found:
                return remove_tree(place.name, parent=found)
        except FileNotFoundError:
            return True
    if _removed(place.name, parent):
        return True
    with suppress(OSError), closing(_open_directory(parent, place.name)) as top:
        for _ in range(_MOST_LEVELS):
            if not _remove_level(top):
                break
    return _removed(place.name, parent)


def _remove_level(top: int) -> bool:
    """Removes what the directory holds, and moves up what its directories hold; whether anything was removed.

    So no path grows with the depth of the tree: a container may nest directories deeper than recursion can follow.
    """
    progress = False
    for name in os.listdir(top):
        if _removed(name, top):
            progress = True
            continue
        with suppress(OSError), closing(_open_directory(top, name)) as directory:
            for child in os.listdir(directory):
                progress |= _removed(child, directory) or _moved(child, directory, top)
        progress |= _removed(name, top)
    return progress


def _moved(name: str, directory: int, top: int) -> bool:
    try:
        os.rename(name, f"..{secrets.token_hex(8)}", src_dir_fd=directory, dst_dir_fd=top)
    except OSError:
        return False
    return True


def _removed(name: str, directory: int) -> bool:
    """Removes a file, a link or an empty directory. Returns True if it is gone."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError:
            return False
    return True
