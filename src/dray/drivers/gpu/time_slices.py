"""Time slices: for how long a process has a GPU before another one gets it. Set by the vendor's `nvidia-smi`."""

from __future__ import annotations

from typing import Final

from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.nvml import DEFAULT_MODE, set_compute_mode
from dray.drivers.gpu.nvml_session import Nvml
from dray.drivers.gpu.programs import run_program

DEFAULT_INTERVAL: Final = 0


class TimeSlices:
    def __init__(self, nvml: Nvml, programs: DriverPrograms) -> None:
        self._nvml = nvml
        self._programs = programs

    def set(self, uuid: str, interval: int) -> None:
        """Processes share the GPU in slices of this length. Raises DriverError."""
        with self._nvml.opened():
            set_compute_mode(self._nvml, uuid, DEFAULT_MODE)
        self._set_policy(uuid, interval)

    def reset(self, uuid: str) -> None:
        """Sets the slice back to the default. Raises DriverError."""
        self._set_policy(uuid, DEFAULT_INTERVAL)

    def _set_policy(self, uuid: str, interval: int) -> None:
        command = [
            *self._programs.command("nvidia-smi"),
            "compute-policy",
            "-i",
            uuid,
            "--set-timeslice",
            str(interval),
        ]
        run_program(command, self._programs.environment())
