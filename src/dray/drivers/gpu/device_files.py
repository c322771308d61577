"""Device files of the vendor's kernel modules, which are made where they are missing.

The kernel modules make no files in /dev. Programs of the vendor do, when the first of them runs: after the machine was
started, /dev/nvidia-uvm is missing until somebody runs CUDA. The kernel states the major number of each device in
/proc/devices; minor numbers are fixed. A module that is not loaded is loaded by `nvidia-modprobe`, if it is installed.
The file of a GPU is made when the GPU is discovered, the others when a claim is prepared.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from dray.driver import ClaimFailed, DriverError
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.options import GpuOptions
from dray.drivers.gpu.programs import run_program

_MODPROBE: Final = "nvidia-modprobe"
# By the name of the file: the names that /proc/devices has for its major number, and the minor number.
_NUMBERS: Final = {
    "nvidiactl": (("nvidiactl", "nvidia", "nvidia-frontend"), 255),
    "nvidia-uvm": (("nvidia-uvm",), 0),
    "nvidia-uvm-tools": (("nvidia-uvm",), 1),
}
_GPU: Final = re.compile(r"nvidia(\d+)")
_GPU_MAJORS: Final = ("nvidia", "nvidia-frontend")
_PARAMETERS: Final = {"DeviceFileMode": 0o666, "DeviceFileUID": 0, "DeviceFileGID": 0}


class DeviceFiles:
    def __init__(self, programs: DriverPrograms, options: GpuOptions) -> None:
        self._programs = programs
        self._options = options

    def find(self, name: str) -> Path | None:
        """Returns the path of the device file; None if it is missing and cannot be made."""
        with suppress(OSError, ClaimFailed):
            return self.needed(name)
        return None

    def needed(self, name: str) -> Path:
        """Returns the path of the device file. Raises ClaimFailed if it is missing and cannot be made."""
        path = self._options.dev / name
        if not _is_device(path):
            self._make(path)
        return path

    def _make(self, path: Path) -> None:
        problem = _problem(path)
        number = self._number(path.name)
        if number is None and path.name == "nvidia-uvm":
            self._load_module()
            number = self._number(path.name)
        if _is_device(path):
            return
        if number is None or os.path.lexists(path):
            raise ClaimFailed(problem)
        try:
            _make_node(path, number, self._parameters())
        except OSError as error:
            raise ClaimFailed(f"{problem} (it cannot be made: {error.strerror})") from error

    def _number(self, name: str) -> int | None:
        gpu = _GPU.fullmatch(name)
        majors, minor = (_GPU_MAJORS, int(gpu[1])) if gpu else _NUMBERS.get(name, ((), 0))
        known = self._majors()
        major = next((known[major_name] for major_name in majors if major_name in known), None)
        return None if major is None else os.makedev(major, minor)

    def _majors(self) -> dict[str, int]:
        try:
            text = (self._options.proc / "devices").read_text()
        except OSError:
            return {}
        lines = (line.split() for line in text.partition("Block devices:")[0].splitlines())
        return {words[1]: int(words[0]) for words in lines if len(words) == 2 and words[0].isdecimal()}

    def _load_module(self) -> None:
        with suppress(DriverError):
            # It starts the system's modprobe, which needs the kernel modules of that system.
            run_program([*self._programs.command_in_root(_MODPROBE), "-u", "-c=0"], self._programs.environment())

    def _parameters(self) -> dict[str, int]:
        """Returns mode and owner of device files, as the kernel module was told."""
        found = dict(_PARAMETERS)
        with suppress(OSError):
            for line in (self._options.proc / "driver/nvidia/params").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in found and value.strip().isdecimal():
                    found[name] = int(value)
        return found


def _make_node(path: Path, number: int, parameters: dict[str, int]) -> None:
    """Creates the file under a temporary name first, so that no process sees an incomplete file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        os.mknod(beside, stat.S_IFCHR | parameters["DeviceFileMode"], number)
        # Whatever the umask.
        os.chmod(beside, parameters["DeviceFileMode"])
        os.chown(beside, parameters["DeviceFileUID"], parameters["DeviceFileGID"])
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _problem(path: Path) -> str:
    state = "is not a device file" if os.path.lexists(path) else "does not exist"
    gpu = _GPU.fullmatch(path.name)
    if gpu:
        return f"{path} {state}: load the kernel module, or run nvidia-modprobe -c {gpu[1]}"
    return f"{path} {state}: the kernel modules nvidia and nvidia-uvm must be loaded, and nvidia-modprobe run"


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False
