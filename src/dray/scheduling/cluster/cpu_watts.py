"""Watts of CPUs by the model of the GPUs beside them, as published for Alibaba's machines with these GPUs.

A processor draws its full watts as soon as one of its cores is in use, and two virtual CPUs are one core. The table is
that of "Power- and Fragmentation-aware Online Scheduling for GPU Datacenters" (CCGrid 2025). It names no processor for
machines with an A10, G2 or G3; those of an A100 are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Processor:
    idle: int
    full: int
    cores: int

    def watts(self, capacity: int, requested: int) -> int:
        """The watts of all processors of a node; cpu in thousandths of a virtual CPU."""
        cores, free = -(-capacity // 2000), max(0, capacity - requested) // 2000
        processors, active = -(-cores // self.cores), -(-(cores - free) // self.cores)
        return self.idle * (processors - active) + self.full * active


XEON_8269CY: Final = Processor(20, 205, 26)
XEON_8163: Final = Processor(20, 165, 24)
XEON_2682: Final = Processor(15, 120, 16)
XEON_6326: Final = Processor(20, 185, 16)
XEON_8369B: Final = Processor(20, 270, 32)
_BESIDE: Final = {"T4": XEON_8163, "P100": XEON_2682, "V100": XEON_6326}


@cache
def processor_beside(model: str) -> Processor:
    """The processor of machines with GPUs of this model; without GPUs, of other machines."""
    if not model:
        return XEON_8269CY
    return next((found for name, found in _BESIDE.items() if model.startswith(name)), XEON_8369B)
