"""Network namespaces by path: made, held by a bind mount, entered by a thread of one's own, found by their number.

A namespace lives as long as a process, a mount or a descriptor refers to it. With the last one, virtual interfaces in
it are destroyed and others fall back to the first namespace of the machine, without their addresses and perhaps with
another name. So a namespace must be held as long as its interfaces are needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from errno import ENOENT
from pathlib import Path
from typing import Final, TypeVar

from dray.node.runtimes.shim import system

OWN: Final = "/proc/thread-self/ns/net"
_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_SIOCGIFADDR: Final = 0x8915
# As /proc writes the scope of an address of IPv6.
_GLOBAL: Final = "00"
_IFF_UP: Final = 0x1
_FLAGS: Final = struct.Struct("16sH14x")

T = TypeVar("T")


def run_in(namespace: str | Path, work: Callable[[], T]) -> T:
    """Calls `work` in the namespace, in a thread of its own; returns or raises what `work` does."""

    def enter() -> T:
        descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            system.setns(descriptor, system.CLONE_NEWNET)
        finally:
            os.close(descriptor)
        return work()

    return _in_thread(enter)


def number(namespace: str | Path = OWN) -> int:
    """Returns the inode number of the namespace; equal numbers mean the same namespace."""
    return os.stat(namespace).st_ino


def holds(path: Path) -> bool:
    """Returns True if a namespace is mounted at the path."""
    try:
        return path.stat().st_dev == os.stat("/proc/self/ns/net").st_dev
    except OSError:
        return False


def is_in_use(namespace: int, besides: Path) -> bool:
    """Returns True if a process is in the namespace, or if it is mounted at another path than `besides`."""
    if not namespace:
        return False
    for process in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if process.isdigit() and os.stat(f"/proc/{process}/ns/net").st_ino == namespace:
                return True
    # Root and place of a mount are the fourth and the fifth word of its line.
    mounts = (line.split(" ", 5)[3:5] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return any(root == f"net:[{namespace}]" and place != str(besides) for root, place in mounts)


def addresses(namespace: str | Path) -> list[str]:
    """Returns the reachable addresses of its interfaces, IPv4 before IPv6."""
    return run_in(namespace, _addresses)


def _addresses() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(made, _SIOCGIFADDR, struct.pack("16s24x", name.encode()))
                found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError), open("/proc/thread-self/net/if_inet6") as lines:
        for line in lines:
            address, _, _, scope, *_ = line.split()
            if scope == _GLOBAL:
                found.append(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address)))
    return [address for address in found if not address.startswith("127.")]


def make(path: Path) -> None:
    """Makes a new namespace, mounts it at the path and sets its loopback interface up. Raises OSError."""

    def unshare() -> None:
        system.unshare(system.CLONE_NEWNET)
        _bring_loopback_up()
        hold(OWN, path)

    _in_thread(unshare)


def hold(namespace: str, path: Path) -> None:
    """Keeps the namespace for as long as it is mounted at the path. Raises OSError."""
    let_go(path)
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    system.mount(namespace, str(path), flags=system.MS_BIND)
    if not holds(path):
        # A mount point is a plain file once the namespace is unmounted.
        let_go(path)
        raise OSError(ENOENT, f"there is no network namespace at {namespace} any more")


def let_go(path: Path) -> None:
    """Unmounts the namespace, however often it was mounted at the path, which may end it."""
    with contextlib.suppress(OSError):
        # Unmount until nothing is mounted there.
        while True:
            system.unmount(str(path))
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        name, flags = _FLAGS.unpack(fcntl.ioctl(made, _SIOCGIFFLAGS, _FLAGS.pack(b"lo", 0)))
        fcntl.ioctl(made, _SIOCSIFFLAGS, _FLAGS.pack(name, flags | _IFF_UP))


def _in_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="network namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
