"""Machines on one machine: network namespaces, each with an address of its own on a common bridge.

They need root and the `ip` command, and are taken away at the end, with whatever runs in them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=30)


class Network:
    """`address` is that of this machine on the bridge."""

    def __init__(self) -> None:
        number = os.getpid() % 16384
        self.bridge = f"drb{number}"
        self._subnet = f"10.{192 + number // 256 % 64}.{number % 256}"
        self.address = f"{self._subnet}.1"
        self._machines: list[str] = []
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.address}/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")

    def machine(self, name: str) -> Machine:
        made = Machine(f"dr{name}{self.bridge[3:]}", name, f"{self._subnet}.{len(self._machines) + 2}")
        self._machines.append(made.namespace)
        ip("netns", "add", made.namespace)
        ip("link", "add", made.link, "type", "veth", "peer", "name", "eth0", "netns", made.namespace)
        ip("link", "set", made.link, "master", self.bridge, "up")
        for command in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{made.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
        ):
            ip("-n", made.namespace, *command)
        return made

    def remove(self) -> None:
        for namespace in self._machines:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", namespace)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", self.bridge)


class Machine:
    def __init__(self, namespace: str, name: str, address: str) -> None:
        self.namespace = namespace
        self.name = name
        self.address = address
        self.link = f"v{namespace}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """In front of a command that is to run on it."""
        return ("ip", "netns", "exec", self.namespace)

    def cut_off(self) -> None:
        ip("link", "set", self.link, "down")

    def connect(self) -> None:
        ip("link", "set", self.link, "up")


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Skips the test where there can be none."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("machines with networks of their own need root and the command ip")
    try:
        made = Network()
        ip("netns", "add", f"{made.bridge}-try")
        ip("netns", "del", f"{made.bridge}-try")
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"this system makes no bridge or network namespace: {told.strip()}")
    try:
        yield made
    finally:
        made.remove()


def processes_below(folder: Path) -> list[int]:
    """Returns the processes that work in the folder or name it on their command line: agents, shims of containers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            named = str(folder).encode() in (process / "cmdline").read_bytes()
            if named or (process / "cwd").readlink().is_relative_to(folder):
                found.append(int(process.name))
    return found
