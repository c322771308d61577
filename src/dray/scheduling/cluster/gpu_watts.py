"""Watts of GPUs by model, idle and in use.

The model is the attribute `model` of a device, or its `productName` (NVIDIA A100-SXM4-40GB: A100). Of models that are
not listed, the longest listed name that their name begins with counts (V100M32: V100), or nothing. G2 and G3 are
undisclosed models of a public trace, with the watts of an A10 and an A100. The watts of H100, H200, B200 and L4 in use
are those of their data sheets; idle watts of these are estimates.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from dray.allocation.devices import Device

WATTS: Final = {
    "A10": (30, 150),
    "A100": (50, 400),
    "B200": (140, 1000),
    "G2": (30, 150),
    "G3": (50, 400),
    "H100": (70, 700),
    "H200": (70, 700),
    "L4": (12, 72),
    "P100": (25, 250),
    "T4": (10, 70),
    "V100": (30, 300),
}


@cache
def watts_of(model: str) -> tuple[int, int]:
    """The watts of a GPU that is idle, and of one that is in use."""
    name = model.removeprefix("NVIDIA ").removeprefix("Tesla ")
    fitting = [known for known in WATTS if name.startswith(known)]
    return WATTS[max(fitting, key=len)] if fitting else (0, 0)


def model_of(device: Device) -> str:
    """The name of the device's model; empty if it publishes none."""
    for attribute in ("model", "productName"):
        if found := (device.published(f"{device.driver}/{attribute}") or {}).get("string"):
            return str(found)
    return ""
