"""System calls that Python 3.11 has no functions for: mount, umount, unshare, setns, prctl."""

from __future__ import annotations

import ctypes
import os

from dray.process.parent import die_with_parent as die_with_parent

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
# Options of a mount that a remount in a user namespace must not lose: nosuid, nodev, noexec, noatime, relatime.
_KEPT_FLAGS = 0x2 | 0x4 | 0x8 | 0x400 | 0x200000
_MNT_DETACH = 2
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 15, 36, 38

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    found = _libc.mount(*arguments, ctypes.c_ulong(flags), None if data is None else data.encode())
    _checked(found, f"mount {source} at {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        kept = os.statvfs(target).f_flag & _KEPT_FLAGS
        mount(source, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def own_hostname(name: str) -> None:
    """Sets the host name for this process and its children only."""
    unshare(CLONE_NEWUTS)
    encoded = name.encode()
    _checked(_libc.sethostname(encoded, len(encoded)), "sethostname")


def setns(descriptor: int, flags: int = 0) -> None:
    _checked(_libc.setns(descriptor, flags), "setns")


def become_subreaper() -> None:
    """Makes this process the parent of descendants whose parent ends."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def refuse_new_privileges() -> None:
    """Denies this process and its children rights from setuid bits and file capabilities."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def name_process(name: str) -> None:
    """Sets the name that `ps` and `top` show: up to 15 bytes."""
    _checked(_libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")


def unmount(target: str) -> None:
    """Unmounts at once; the file system is released when no process has it open any more."""
    _checked(_libc.umount2(os.fsencode(target), _MNT_DETACH), f"unmount {target}")
