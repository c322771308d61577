"""Sysctls of an interface, which the kernel resets when the interface goes to another network.

They are read and written in the network namespace of the calling thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path("/proc/sys/net")
_FAMILIES: Final = ("ipv4", "ipv6")


def path_of(family: str, interface: str, name: str) -> Path:
    return ROOT / family / "conf" / interface / name


def read_sysctls(interface: str) -> dict[str, str]:
    """Returns sysctls by family and name, such as ipv4/rp_filter; leaves out unreadable ones."""
    found = {}
    for family in _FAMILIES:
        directory = ROOT / family / "conf" / interface
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            with suppress(OSError):
                found[f"{family}/{path.name}"] = path.read_text().strip()
    return found


def write_sysctls(interface: str, values: Mapping[str, str]) -> None:
    """Writes the sysctls that differ; ignores those that the kernel refuses."""
    current = read_sysctls(interface)
    # That of the MTU is the MTU itself, which has been set.
    for key, value in values.items():
        family, _, name = key.partition("/")
        if current.get(key, value) != value and name != "mtu":
            with suppress(OSError):
                path_of(family, interface, name).write_text(f"{value}\n")
