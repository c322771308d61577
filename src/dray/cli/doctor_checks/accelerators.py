"""Checks of GPUs and TPUs: driver, device files, modes of GPUs that surprise people, daemons that were left behind."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from dray.cli.doctor_checks.check import Check, checked, error, info, ok, warning
from dray.cli.doctor_checks.gpu_probe import GpuReport, ProbedGpu, probe
from dray.driver import DriverError
from dray.drivers.gpu.driver_files import DriverFiles, find_driver_files
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.pci import pci_functions
from dray.drivers.tpu.hardware import find_chips
from dray.process.beneath import PROCESS_BYTES, read_start

_NVIDIA: Final = "0x10de"
_VERSION: Final = re.compile(r"\b(\d{3}(?:\.\d+){1,2})\b")
_CONTROL_FILES: Final = ("nvidiactl", "nvidia-uvm")
_PROHIBITED, _EXCLUSIVE_PROCESS = 2, 3
_MPS: Final = "nvidia-cuda-mps"
_MPS_VARIABLE: Final = b"CUDA_MPS_PIPE_DIRECTORY="
_INSTALL: Final = (
    "install the NVIDIA driver of your distribution (Ubuntu: apt-get install nvidia-driver-580) and reboot"
)


def accelerator_checks(settings: Mapping[str, str]) -> Iterator[Check]:
    """`settings` are those of the GPU driver, as --driver gpu:KEY=VALUE gives them."""
    yield from checked("gpu driver", lambda: _gpu_checks(settings))
    yield from checked("tpu", lambda: [_tpus()])


def _gpu_checks(settings: Mapping[str, str]) -> Iterator[Check]:
    options = msgspec.convert(dict(settings), GpuOptions, strict=False)
    on_bus = _gpus_on_bus(options.sysfs)
    try:
        files = find_driver_files(options.driver_root)
    except DriverError as problem:
        yield _without_driver(problem, on_bus)
        return
    report = probe(settings)
    yield _driver(files, options.proc, report)
    if report.problem:
        return
    yield _count(report, on_bus)
    yield _device_files(options.dev, report.gpus)
    yield _persistence(report.gpus)
    yield _mig(report.gpus)
    yield _compute_mode(report.gpus, options.proc)
    yield _mps(options.proc)


def _gpus_on_bus(sysfs: Path) -> int:
    """Returns how many display controllers of NVIDIA the PCI bus has."""
    functions = (function.address for function in pci_functions(sysfs, _NVIDIA))
    files = (sysfs / "bus/pci/devices" / address / "class" for address in functions)
    return sum(path.exists() and path.read_text().startswith("0x03") for path in files)


def _without_driver(problem: DriverError, on_bus: int) -> Check:
    if on_bus:
        return error("gpu driver", f"{on_bus} NVIDIA GPUs are on the PCI bus, and {problem}", _INSTALL)
    if Path("/dev/dxg").exists():
        text = "this is WSL: its GPUs have no device files of their own, which the gpu driver needs"
        return info("gpu driver", text, "run Linux on the machine itself to offer its GPUs")
    return info("gpu driver", "no NVIDIA GPU and no NVIDIA driver on this machine")


def _driver(files: DriverFiles, proc: Path, report: GpuReport) -> Check:
    """Whether library and kernel module are of the same version, and the library answers."""
    library = _version(os.path.realpath(files.management_library))
    try:
        kernel = _version((proc / "driver/nvidia/version").read_text())
    except OSError:
        kernel = ""
    if library and kernel and library != kernel:
        text = f"the library is {library} and the kernel module is {kernel}"
        return error("gpu driver", text, "reboot, or reload the module: rmmod nvidia_uvm nvidia && modprobe nvidia")
    if problem := _cuda_problem(files, library):
        return error("gpu driver", problem, _INSTALL)
    if report.problem:
        remedy = "modprobe nvidia; dmesg | grep -i nvrm shows why it is not loaded" if not kernel else "run nvidia-smi"
        return error("gpu driver", report.problem, remedy)
    return ok("gpu driver", f"version {report.driver_version}, library {files.management_library}")


def _cuda_problem(files: DriverFiles, version: str) -> str:
    """Returns what is wrong with the library of CUDA programs; empty if it belongs to the driver."""
    cuda = files.own_libraries().get("libcuda.so.1")
    if cuda is None or not cuda.exists():
        return f"no libcuda.so.1 in {files.library_directory}: CUDA programs find no GPU"
    found = _version(cuda.name)
    if version and found and found != version:
        return f"{cuda.name} is of another version than the driver, {version}: CUDA programs find no GPU"
    return ""


def _version(text: str) -> str:
    found = _VERSION.search(text)
    return found[1] if found else ""


def _count(report: GpuReport, on_bus: int) -> Check:
    names = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in report.gpus)
    if report.gpu_problems:
        told = "; ".join(f"GPU {index}: {problem}" for index, problem in report.gpu_problems.items())
        return error("gpus", told, "nvidia-smi -q, dmesg | grep -i xid; reset or reseat the GPU")
    if len(report.gpus) < on_bus:
        text = f"{on_bus} GPUs are on the PCI bus and the driver has {len(report.gpus)} ({names or 'none'})"
        return warning("gpus", text, "dmesg | grep -i nvrm says why the driver leaves a GPU out")
    return ok("gpus", names) if names else info("gpus", "the driver has no GPU")


def _device_files(dev: Path, gpus: Iterable[ProbedGpu]) -> Check:
    names = [*_CONTROL_FILES, *(f"nvidia{gpu.minor}" for gpu in gpus)]
    missing = [str(dev / name) for name in names if not _is_device(dev / name)]
    if not missing:
        return ok("gpu device files", f"{', '.join(names)} in {dev}")
    remedy = "nvidia-modprobe -u -c=0 as root; the gpu driver makes missing files itself if it runs as root"
    level = warning if os.geteuid() == 0 else error
    return level("gpu device files", f"missing: {', '.join(missing)}", remedy)


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _persistence(gpus: Iterable[ProbedGpu]) -> Check:
    off = [gpu.index for gpu in gpus if gpu.persistence is False]
    if off:
        text = f"off for GPU {_listed(off)}: the first program on an idle GPU waits for seconds"
        return warning("persistence mode", text, "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1")
    return ok("persistence mode", "on, or not needed")


def _mig(gpus: Iterable[ProbedGpu]) -> Check:
    found = [gpu for gpu in gpus if gpu.mig is not None]
    pending = [gpu.index for gpu in found if gpu.mig != gpu.mig_pending]
    empty = [gpu.index for gpu in found if gpu.mig and not gpu.partitions]
    if pending:
        text = f"MIG mode of GPU {_listed(pending)} changes with the next reset"
        return warning("mig", text, f"end all programs on it, then nvidia-smi --gpu-reset -i {_listed(pending)}")
    if empty:
        text = f"MIG is on for GPU {_listed(empty)} and there are no partitions: it is offered with DynamicMIG alone"
        remedy = "dray up --node --driver gpu:DynamicMIG=true, or nvidia-smi mig -cgi 9,9 -C, or nvidia-smi -mig 0"
        return warning("mig", text, remedy)
    on = [
        f"GPU {gpu.index} ({gpu.partitions} partition{'' if gpu.partitions == 1 else 's'})" for gpu in found if gpu.mig
    ]
    return ok("mig", f"on for {', '.join(on)}" if on else "off" if found else "these GPUs have no MIG")


def _compute_mode(gpus: Iterable[ProbedGpu], proc: Path) -> Check:
    prohibited = [gpu.index for gpu in gpus if gpu.compute_mode == _PROHIBITED]
    exclusive = [gpu.index for gpu in gpus if gpu.compute_mode == _EXCLUSIVE_PROCESS]
    if prohibited:
        text = f"GPU {_listed(prohibited)} is prohibited: no CUDA program can use it"
        return error("compute mode", text, f"nvidia-smi -c 0 -i {_listed(prohibited)}")
    if exclusive and not _mps_processes(proc):
        text = f"GPU {_listed(exclusive)} takes one process at a time, and no MPS daemon runs: sharing fails"
        return warning("compute mode", text, f"nvidia-smi -c 0 -i {_listed(exclusive)}")
    return ok("compute mode", "exclusive, with MPS" if exclusive else "default")


def _mps(proc: Path) -> Check:
    """Daemons that no driver of dray started keep GPUs to themselves."""
    foreign = {pid: place for pid, place in _mps_processes(proc).items() if "/plugins/" not in place}
    if foreign:
        told = ", ".join(f"process {pid} ({place or 'default directory'})" for pid, place in sorted(foreign.items()))
        text = f"an MPS daemon runs that dray did not start: {told}"
        return warning("mps", text, "end it: echo quit | nvidia-cuda-mps-control")
    count = len(_mps_processes(proc))
    return ok("mps", f"{count} processes, of claims" if count else "no daemon runs")


def _mps_processes(proc: Path) -> dict[int, str]:
    """Returns MPS daemons and servers with their pipe directories; empty where this user may not see it."""
    found = {}
    for entry in filter(str.isdecimal, os.listdir(proc)):
        try:
            if not (proc / entry / "comm").read_text().startswith(_MPS):
                continue
        except OSError:
            continue
        try:
            variables = read_start(proc / entry / "environ", PROCESS_BYTES).split(b"\0")
        except OSError:
            variables = []
        place = next((variable for variable in variables if variable.startswith(_MPS_VARIABLE)), b"")
        found[int(entry)] = place.removeprefix(_MPS_VARIABLE).decode(errors="replace")
    return found


def _tpus() -> Check:
    hardware = find_chips(Path("/sys"), Path("/dev"))
    if hardware.chips:
        return ok("tpu", f"{len(hardware.chips)} chips, {' or '.join(hardware.accelerators) or 'of an unknown kind'}")
    return info("tpu", hardware.problem)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
