"""Asks NVIDIA's library about the GPUs of this machine, in a process of its own: a call may hang on a sick GPU.

    python -m dray.cli.doctor_checks.gpu_probe '{"driverRoot": "/"}'

The process prints a `GpuReport` as JSON. `probe` starts it and gives up after a time limit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_SECONDS: Final = 60.0


class ProbedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """Modes are None where the GPU does not have them."""

    index: int
    minor: int
    name: str
    persistence: bool | None
    compute_mode: int | None
    mig: bool | None
    mig_pending: bool | None
    partitions: int = 0


class GpuReport(msgspec.Struct, frozen=True, kw_only=True):
    """`problem` says why the library cannot be used; `gpu_problems` are of single GPUs, by index."""

    driver_version: str = ""
    gpus: tuple[ProbedGpu, ...] = ()
    gpu_problems: dict[int, str] = {}
    problem: str = ""


def probe(settings: Mapping[str, str]) -> GpuReport:
    """Returns what the library says; `settings` are those of the GPU driver."""
    command = [sys.executable, "-m", __name__, msgspec.json.encode(dict(settings)).decode()]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return GpuReport(problem=f"NVIDIA's library has not answered within {_SECONDS:g} s")
    try:
        return msgspec.json.decode(done.stdout, type=GpuReport)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return GpuReport(problem=said[-1] if said else f"the process that asks it ended with status {done.returncode}")


def _report(settings: dict[str, str]) -> GpuReport:
    from dray.driver import DriverError
    from dray.drivers.gpu.driver_files import find_driver_files
    from dray.drivers.gpu.nvml_session import Nvml

    try:
        nvml = Nvml(find_driver_files(settings.get("driverRoot", "")).management_library)
        with nvml.opened():
            gpus: list[ProbedGpu] = []
            problems: dict[int, str] = {}
            for index in range(nvml.count()):
                try:
                    gpus.append(_gpu(index, nvml.device(index)))
                except DriverError as error:
                    problems[index] = str(error)
            return GpuReport(driver_version=nvml.driver_version, gpus=tuple(gpus), gpu_problems=problems)
    except DriverError as error:
        return GpuReport(problem=str(error))


def _gpu(index: int, handle: Any) -> ProbedGpu:
    from dray.drivers.gpu.binding import pynvml
    from dray.drivers.gpu.nvml import facts, uuid_of
    from dray.drivers.gpu.nvml_calls import optional
    from dray.drivers.gpu.nvml_mig import parts

    found = facts(handle, uuid_of(handle), optional)
    mig = optional("MIG mode", pynvml.nvmlDeviceGetMigMode, handle)
    persistence = optional("persistence mode", pynvml.nvmlDeviceGetPersistenceMode, handle)
    return ProbedGpu(
        index=index,
        minor=found.minor,
        name=found.name,
        persistence=None if persistence is None else bool(persistence),
        compute_mode=optional("compute mode", pynvml.nvmlDeviceGetComputeMode, handle),
        mig=None if mig is None else bool(mig[0]),
        mig_pending=None if mig is None else bool(mig[1]),
        partitions=len(parts(handle)) if mig is not None and mig[0] else 0,
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(_report(msgspec.json.decode(sys.argv[1], type=dict[str, str]))))
    sys.stdout.flush()
