"""Names of PCI vendors and devices: from the database of the machine, else of those that networks are made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

FILES: Final = tuple(map(Path, ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids")))

_VENDORS: Final = {
    "10ec": "Realtek Semiconductor Co., Ltd.",
    "1414": "Microsoft Corporation",
    "14e4": "Broadcom Inc. and subsidiaries",
    "15b3": "Mellanox Technologies",
    "1ae0": "Google, Inc.",
    "1af4": "Red Hat, Inc.",
    "1d0f": "Amazon.com, Inc.",
    "8086": "Intel Corporation",
}
_DEVICES: Final = {
    ("15b3", "1018"): "MT27800 Family [ConnectX-5 Virtual Function]",
    ("15b3", "101e"): "ConnectX Family mlx5Gen Virtual Function",
    ("15b3", "1021"): "MT2910 Family [ConnectX-7]",
    ("15b3", "1023"): "CX8 Family [ConnectX-8]",
    ("15b3", "101d"): "MT2892 Family [ConnectX-6 Dx]",
    ("1ae0", "0042"): "Compute Engine Virtual Ethernet [gVNIC]",
    ("1af4", "1000"): "Virtio network device",
    ("1af4", "1041"): "Virtio 1.0 network device",
    ("1d0f", "ec20"): "Elastic Network Adapter (ENA)",
    ("1d0f", "efa0"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa1"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa2"): "Elastic Fabric Adapter (EFA)",
    ("1d0f", "efa3"): "Elastic Fabric Adapter (EFA)",
}


def names(vendor: str, device: str, files: Sequence[Path] = FILES) -> tuple[str, str]:
    """Returns the names of vendor and device, given as four hexadecimal digits; "" for unknown ones."""
    for file in files:
        if file.is_file():
            found = _look_up(file, vendor, device)
            if all(found):
                return found
    return _VENDORS.get(vendor, ""), _DEVICES.get((vendor, device), "")


@lru_cache(maxsize=256)
def _look_up(file: Path, vendor: str, device: str) -> tuple[str, str]:
    """A line for each vendor, and below it one for each of its devices with a tab before it."""
    found = ""
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("\t"):
                if found and line[1:5] == device and not line.startswith("\t\t"):
                    return found, line[5:].strip()
            elif found:
                break
            elif line[:4] == vendor and line[4:5] == " ":
                found = line[4:].strip()
    return found, ""
