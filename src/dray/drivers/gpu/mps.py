"""MPS: control daemons through which the processes of a claim share GPUs at the same time.

A daemon has a directory `mps/<id>` with `pipe`, `log` and `shm`. It runs on its own and outlives the driver;
processes that belong to one are told by the pipe directory in their environment, whoever started them. A file in
`log` with its process id is written when the daemon has been told everything: a daemon without it was left by a
driver that died, and is started anew. Starting and stopping may be done again at any time.

Containers write into `pipe` and `shm` as they like. Both are file systems of their own in memory, limited in size, and
gone when they are unmounted: nothing in them fills the disk of the machine, keeps a claim from being unprepared, or is
a link that the daemon follows out of them.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from dray.driver import DriverError, Mount
from dray.driver.files import replace_file
from dray.drivers.gpu.claim_state import MpsState
from dray.drivers.gpu.driver_programs import DriverPrograms
from dray.drivers.gpu.nvml import DEFAULT_MODE, EXCLUSIVE_PROCESS, set_compute_mode
from dray.drivers.gpu.nvml_session import Nvml
from dray.drivers.gpu.programs import run_program
from dray.node.runtimes.shim import system
from dray.process import beneath

PIPE_DIRECTORY: Final = "CUDA_MPS_PIPE_DIRECTORY"
CONTAINER_PIPE: Final = "/tmp/nvidia-mps"
_CONTROL: Final = "nvidia-cuda-mps-control"
_STARTED: Final = "startup.log"
# Seconds between looks whether the daemon answers.
_PAUSES: Final = (0.0, 1.0, 2.0, 4.0, 8.0)
_END_PATIENCE: Final = 5.0
# Looks at an environment that cannot be read, since its process executes a program, a hundredth of a second apart.
_ENVIRONMENT_LOOKS: Final = 100
# An environment without bytes in so many looks, one after the other, is empty.
_EMPTY_LOOKS: Final = 3
_NOSUID_NODEV, _NO_LINKS = 0x2 | 0x4, 0x8 | 0x100
# What containers write into, with the flags of their mounts besides, and their limits.
_SHARED: Final = {"shm": (0, "mode=1777"), "pipe": (_NO_LINKS, "size=16m,nr_inodes=4k,mode=777")}
_LEAST_SHM: Final = 16 << 20
_PROCESSES: Final = Path("/proc")


def mps_id(claim_uid: str, uuids: Sequence[str]) -> str:
    """Returns the id of the MPS daemon for these devices of the claim."""
    return f"{claim_uid}-{hashlib.sha256(','.join(uuids).encode()).hexdigest()[:5]}"


def claim_of(daemon_id: str) -> str:
    return daemon_id.rpartition("-")[0]


class MpsDaemons:
    def __init__(
        self, nvml: Nvml, programs: DriverPrograms, directory: Path, shared_memory: Literal["private", "host"]
    ) -> None:
        self._nvml = nvml
        self._programs = programs
        self._directory = directory / "mps"
        self._is_private = shared_memory == "private"

    def ids(self) -> list[str]:
        """Returns the ids of all daemons that were started and not stopped, by any process."""
        return sorted(os.listdir(self._directory)) if self._directory.is_dir() else []

    def is_running(self, daemon_id: str) -> bool:
        """Whether it runs and was told everything."""
        try:
            told = (self._directory / daemon_id / "log" / _STARTED).read_text().split()
        except OSError:
            return False
        return bool(_marked(told, self._mark(daemon_id)))

    def start(self, wanted: MpsState) -> None:
        """Raises DriverError where it does not come up."""
        if self.is_running(wanted.id):
            return
        self._end_processes(wanted.id)
        with self._nvml.opened():
            for uuid in wanted.gpus:
                set_compute_mode(self._nvml, uuid, EXCLUSIVE_PROCESS)
        directory = self._directory / wanted.id
        self._make(directory, wanted.gpus)
        environment = self._environment(directory)
        self._launch(wanted, directory, environment)
        if wanted.thread_percentage is not None:
            self._tell(f"set_default_active_thread_percentage {wanted.thread_percentage}", environment)
        for uuid, limit in wanted.memory_limits.items():
            self._tell(f"set_default_device_pinned_mem_limit {uuid} {limit}", environment)
        processes = self._processes(wanted.id)
        if not processes:
            raise DriverError(f"the control daemon of MPS ended after it was started: see {directory / 'log'}")
        replace_file(directory / "log" / _STARTED, " ".join(map(str, processes)).encode())

    def stop(self, daemon_id: str) -> None:
        """Ends it and removes its files. Raises DriverError or OSError, and can be called again."""
        directory = self._directory / daemon_id
        if self._processes(daemon_id):
            # A daemon that does not listen is ended otherwise.
            with suppress(DriverError):
                self._tell("quit", self._environment(directory), seconds=_END_PATIENCE)
        self._end_processes(daemon_id)
        for name in _SHARED:
            if os.path.ismount(directory / name):
                system.unmount(str(directory / name))
        if directory.exists():
            _remove(directory)

    def free(self, uuid: str) -> None:
        """Gives the GPU back to all processes. Raises NvmlError."""
        with self._nvml.opened():
            set_compute_mode(self._nvml, uuid, DEFAULT_MODE)

    def gpus_of(self, daemon_id: str) -> tuple[str, ...]:
        """UUIDs of the GPUs that the daemon has for itself, of a daemon whose claim has no record any more."""
        listed = self._directory / daemon_id / "gpus"
        return tuple(listed.read_text().split()) if listed.exists() else ()

    def mounts(self, daemon_id: str) -> tuple[Mount, ...]:
        """Returns the mounts that clients of the daemon need."""
        options = ("rw", "nosuid", "nodev", "bind")
        shm = str(self._directory / daemon_id / "shm") if self._is_private else "/dev/shm"
        return (
            Mount(str(self._directory / daemon_id / "pipe"), CONTAINER_PIPE, options),
            Mount(shm, "/dev/shm", options),
        )

    def _make(self, directory: Path, gpus: Sequence[str]) -> None:
        for name in ("pipe", "log", "shm"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / "gpus").write_text("\n".join(gpus))
        (directory / "log" / _STARTED).unlink(missing_ok=True)
        if self._is_private:
            with self._nvml.opened():
                gpus_here = self._nvml.count()
            _mount_shared(directory, gpus_here)
        # What a daemon that died has left, its process id among it. The directory stays: containers have it mounted.
        for path in (directory / "pipe").iterdir():
            beneath.remove_tree(path)
        # Clients in containers run as any user.
        (directory / "pipe").chmod(0o777)

    def _launch(self, wanted: MpsState, directory: Path, environment: dict[str, str]) -> None:
        control = self._programs.command(_CONTROL)
        multi_user = ["-M"] if wanted.multi_user else []
        shm = str(directory / "shm") if self._is_private else ""
        launcher = [sys.executable, "-m", "dray.drivers.gpu.mps_launch", str(os.getpid()), shm]
        visible = {**environment, "CUDA_VISIBLE_DEVICES": ",".join(wanted.devices)}
        run_program([*launcher, *control, "-d", *multi_user], visible)
        for pause in _PAUSES:
            time.sleep(pause)
            if self._processes(wanted.id):
                return
        raise DriverError(f"the control daemon of MPS did not come up: see {directory / 'log'}")

    def _tell(self, command: str, environment: dict[str, str], seconds: float = 20.0) -> None:
        run_program(self._programs.command(_CONTROL), environment, f"{command}\n", seconds=seconds)

    def _environment(self, directory: Path) -> dict[str, str]:
        return {
            **self._programs.environment(),
            PIPE_DIRECTORY: str(directory / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(directory / "log"),
        }

    def _processes(self, daemon_id: str) -> list[int]:
        """Returns the processes of the daemon and its servers, and programs that start it or speak to it."""
        return _marked(filter(str.isdecimal, os.listdir(_PROCESSES)), self._mark(daemon_id))

    def _mark(self, daemon_id: str) -> bytes:
        return f"{PIPE_DIRECTORY}={self._directory / daemon_id / 'pipe'}".encode()

    def _end_processes(self, daemon_id: str) -> None:
        def ended() -> bool:
            return not self._processes(daemon_id)

        if _waited(ended, 0.5 if self._processes(daemon_id) else 0.0):
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes(daemon_id):
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            if _waited(ended, _END_PATIENCE):
                return
        raise DriverError(f"processes of MPS daemon {daemon_id} do not end: {self._processes(daemon_id)}")


def _shm_bytes(daemons: Path, gpus: int) -> int:
    """The size of the next `shm`: all of them together take half of the memory at most. Raises DriverError."""
    page = os.sysconf("SC_PAGE_SIZE")
    half = os.sysconf("SC_PHYS_PAGES") * page // 2
    mounted = [os.statvfs(directory) for directory in daemons.glob("*/shm") if os.path.ismount(directory)]
    left = half - sum(filesystem.f_blocks * filesystem.f_frsize for filesystem in mounted)
    if left < _LEAST_SHM:
        raise DriverError(
            "MPS: other daemons may use all of the memory that is meant for shm; their claims have to end"
        )
    return min(half // max(gpus, 1), left) // page * page


def _mount_shared(directory: Path, gpus: int) -> None:
    """Mounts the shared directories of a daemon. Existing mounts stay: containers use them."""
    for name, (flags, limits) in _SHARED.items():
        if os.path.ismount(directory / name):
            continue
        if name == "shm":
            limits = f"size={_shm_bytes(directory.parent, gpus)},{limits}"
        try:
            system.mount("tmpfs", str(directory / name), "tmpfs", _NOSUID_NODEV | flags, limits)
        except OSError as error:
            raise DriverError(
                f"MPS: {error.strerror}; run the driver with the right to mount, or set mpsSharedMemory=host"
            ) from error


def _remove(directory: Path) -> None:
    if not beneath.remove_tree(directory):
        raise DriverError(f"{directory} cannot be removed: remove it by hand")


def _marked(processes: Iterable[str], mark: bytes) -> list[int]:
    """Returns the processes with a variable in their environment.

    The environment of a process cannot be read for a moment while the process executes a program. Environments without
    bytes are read again, all together: a node has hundreds of processes that have none.
    """
    found = []
    empty_looks = dict.fromkeys(processes, 0)
    for _ in range(_ENVIRONMENT_LOOKS):
        for process, looks in list(empty_looks.items()):
            try:
                text = _environment_of(process)
                looks = looks + 1 if not text and _seems_empty(process) else 0
            except OSError:
                text, looks = b"", _EMPTY_LOOKS
            if mark in text.split(b"\0"):
                found.append(int(process))
            if text or looks == _EMPTY_LOOKS:
                del empty_looks[process]
            else:
                empty_looks[process] = looks
        if not empty_looks:
            break
        time.sleep(0.01)
    return found


def _environment_of(process: str) -> bytes:
    """Raises OSError for processes that have ended, and for those in containers, which may claim to be daemons."""
    if os.readlink(_PROCESSES / process / "ns/pid") != os.readlink(_PROCESSES / "self/ns/pid"):
        raise PermissionError(f"process {process} is in a container")
    return beneath.read_start(_PROCESSES / process / "environ", beneath.PROCESS_BYTES)


def _seems_empty(process: str) -> bool:
    """Whether the environment of a process has no bytes. Raises OSError for a process without a program.

    While a process executes a program, its environment begins nowhere at first, and has no bytes for some instructions.
    """
    # Threads of the kernel and processes that have ended have no program.
    os.readlink(_PROCESSES / process / "exe")
    stat = beneath.read_start(_PROCESSES / process / "stat", beneath.PROCESS_BYTES)
    # Where the environment begins and ends are the fields 50 and 51; the second field is a name in parentheses.
    begin, end = stat.rpartition(b")")[2].split()[47:49]
    return begin == end != b"0"


def _waited(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold in time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() >= end:
            return False
        time.sleep(0.02)
    return True
