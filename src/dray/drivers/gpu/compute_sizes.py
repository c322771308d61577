"""Sizes of compute instances: how many slices of its GPU instance each takes.

Programs use a compute instance. Most take all of their GPU instance; `nvidia-smi mig -cci` can make smaller ones,
several of which share the memory of one GPU instance.
"""

from __future__ import annotations

from dataclasses import dataclass

from dray.drivers.gpu.binding import pynvml
from dray.drivers.gpu.known_answers import KnownAnswers
from dray.drivers.gpu.nvml import uuid_of
from dray.drivers.gpu.nvml_mig import part_handles
from dray.drivers.gpu.nvml_session import Handle


@dataclass(frozen=True, slots=True)
class ComputeSize:
    slices: int
    slices_of_instance: int
    multiprocessors: int

    @property
    def is_whole(self) -> bool:
        return self.slices >= self.slices_of_instance


def compute_sizes(gpu: Handle, known: KnownAnswers) -> dict[str, ComputeSize]:
    """Returns the sizes by UUID. Compute instances are missing whose size the library does not tell this process."""
    found = {}
    for handle in part_handles(gpu):
        uuid = uuid_of(handle)
        told = known.ask(uuid)(f"attributes of partition {uuid}", pynvml.nvmlDeviceGetAttributes, handle)
        if told is not None:
            found[uuid] = ComputeSize(
                told.computeInstanceSliceCount, told.gpuInstanceSliceCount, told.multiprocessorCount
            )
    return found
