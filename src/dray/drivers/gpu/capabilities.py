"""Capability files of MIG: the device nodes that let a container use one partition and no other.

The kernel module has a file for each GPU instance and each compute instance, with the minor number of its node; the
major number is in `/proc/devices`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dray.driver import ClaimFailed, DeviceNode
from dray.drivers.gpu.nvml_mig import Part

_MINOR: Final = re.compile(r"^DeviceFileMinor:\s*(\d+)$", re.MULTILINE)
_MAJOR: Final = re.compile(r"^\s*(\d+)\s+nvidia-caps$", re.MULTILINE)
_MODE: Final = 0o444


def capability_nodes(proc: Path, minor: int, part: Part) -> list[DeviceNode]:
    """Returns the device nodes of a partition. Raises ClaimFailed if the kernel does not show them."""
    instance = proc / "driver/nvidia/capabilities" / f"gpu{minor}" / "mig" / f"gi{part.instance_id}"
    major = _number(proc / "devices", _MAJOR)
    return [
        _node(major, _number(instance / "access", _MINOR)),
        _node(major, _number(instance / f"ci{part.compute_id}" / "access", _MINOR)),
    ]


def _node(major: int, minor: int) -> DeviceNode:
    path = f"/dev/nvidia-caps/nvidia-cap{minor}"
    return DeviceNode(path, type="c", major=major, minor=minor, file_mode=_MODE, permissions="rw")


def _number(file: Path, pattern: re.Pattern[str]) -> int:
    try:
        found = pattern.search(file.read_text())
    except OSError as error:
        raise ClaimFailed(
            f"{file} cannot be read ({error.strerror}): the kernel does not show the partition"
        ) from error
    if found is None:
        raise ClaimFailed(f"{file} has no {pattern.pattern!r}: the kernel module may be too old for MIG")
    return int(found[1])
