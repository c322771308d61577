"""Generations of TPUs: the accelerators that nodes are labelled with, and the PCI identifiers of chips."""

from __future__ import annotations

from typing import Final

_GENERATIONS: Final = {
    "tpu-v3-device": "v3",
    "tpu-v3-slice": "v3",
    "tpu-v4-podslice": "v4",
    "tpu-v4-lite-device": "v4lite",
    "tpu-v5-lite-device": "v5lite",
    "tpu-v5-lite-podslice": "v5litepod",
    "tpu-v5p-slice": "v5p",
    "tpu-v6e-slice": "v6e",
    "tpu7x": "tpu7x",
}
ACCELERATORS: Final = tuple(_GENERATIONS)
GOOGLE: Final = "0x1ae0"
"""The PCI vendor."""
_V3_SUBSYSTEM: Final = "0x004f"
# Accelerators with the same chip cannot be told apart by it; the first is what a machine has that says no more.
_BY_DEVICE: Final = {
    "0x0027": ("tpu-v3-device", "tpu-v3-slice"),
    "0x005e": ("tpu-v4-podslice", "tpu-v4-lite-device"),
    "0x0063": ("tpu-v5-lite-podslice", "tpu-v5-lite-device"),
    "0x0062": ("tpu-v5p-slice",),
    "0x006f": ("tpu-v6e-slice",),
    "0x0076": ("tpu7x",),
}
_ACCEL_FILES: Final = frozenset({"v3", "v4", "v4lite"})
# One core a chip; the others have two.
_SINGLE_CORE: Final = frozenset({"v4lite", "v5lite", "v5litepod", "v6e"})
# A torus in two dimensions, which closes at 16 chips; the others have three, and close from 4x4x4 on.
_FLAT: Final = frozenset({"v5lite", "v5litepod", "v6e"})
_RESILIENT: Final = frozenset({"v4", "v4lite", "v5p"})
_ENV_TYPES: Final = (
    ("v5litepod", "tpu-v5-lite-podslice"),
    ("v5lite", "tpu-v5-lite-device"),
    ("v5p", "tpu-v5p-slice"),
    ("v6e", "tpu-v6e-slice"),
    ("v4", "tpu-v4-podslice"),
    ("v3", "tpu-v3-device"),
)


def generation_of(accelerator: str) -> str:
    """Returns the value of the attribute `tpuGen`. Raises KeyError for an unknown accelerator."""
    return _GENERATIONS[accelerator]


def accelerators_of(device: str, subsystem: str) -> tuple[str, ...]:
    """Returns the accelerators whose chips have these PCI ids; empty for unknown devices."""
    found = _BY_DEVICE.get(device, ())
    return () if device == "0x0027" and subsystem != _V3_SUBSYSTEM else found


def accelerator_of_type(text: str) -> str:
    """Returns the accelerator for a type such as `v5litepod-16`; "" if the type is unknown."""
    return next((name for prefix, name in _ENV_TYPES if text.lower().startswith(prefix)), "")


def is_slice(accelerator: str) -> bool:
    """Whether its chips may be part of a slice, and have bounds."""
    return accelerator.endswith("slice") or accelerator == "tpu7x"


def has_accel_files(accelerator: str) -> bool:
    """/dev/accelN; the later ones have /dev/vfio/N."""
    return generation_of(accelerator) in _ACCEL_FILES


def cores_per_chip(generation: str) -> int:
    return 1 if generation in _SINGLE_CORE else 2


def is_flat(generation: str) -> bool:
    return generation in _FLAT


def is_resilient(generation: str) -> bool:
    """Whether large slices route around a broken link."""
    return generation in _RESILIENT
