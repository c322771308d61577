"""`dray up --node` without any option on a machine with GPUs, as the machine's own files show them.

The library is found where the linker looks, the device files are in /dev of a mount namespace. The library exports few
of NVML's symbols, minor numbers are not the indexes of GPUs, and there are no programs of the vendor, no versions in
the names of files, no /dev/nvidiactl and no /dev/nvidia-uvm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node.runtimes.device_files import can_hide
from dray.process import up_state
from tests.cli.reboots import kill_all
from tests.cli.running import DRAY, PATIENCE, Running, eventually
from tests.cli.test_up import wait
from tests.drivers.gpu.machines import FEW_SYMBOLS, compile_library
from tests.node.runtimes import busybox

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not can_hide() or shutil.which("unshare") is None, reason="device files are made by root"
)
# A copy of /dev with device files of GPUs, seen by what is started after it alone.
NAMESPACE = """
set -e
mkdir -p dev
mount -t tmpfs gpus dev
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/fd dev
mkdir dev/pts dev/shm
mount --bind /dev/pts dev/pts
mount --bind /dev/shm dev/shm
for n in $(seq 0 $(($GPUS - 1))); do mknod -m 666 dev/nvidia$n c 1 5; done
mount --move dev /dev
exec "$@"
"""
OPENED = "for f in /dev/nvidia[0-9]*; do head -c 1 $f >/dev/null 2>&1 && echo ${f#/dev/nvidia}; done"


class Machine:
    def __init__(self, folder: Path, gpus: int) -> None:
        libraries = folder / "libraries"
        libraries.mkdir()
        if compile_library(libraries, FEW_SYMBOLS) is None:
            pytest.skip("gcc is not installed: it compiles the library that stands in for NVML")
        self.folder = folder
        settings = {"GPUS": str(gpus), "LD_LIBRARY_PATH": str(libraries), "NVML_H100": str(gpus) if gpus > 2 else "0"}
        variables = [f"{name}={value}" for name, value in settings.items()]
        self._prefix = ("env", *variables, "unshare", "--mount", "sh", "-c", NAMESPACE, "sh")

    def up(self, *options: str) -> Running:
        return Running("up", "--port", "0", "--node", *options, cwd=self.folder, prefix=self._prefix)

    def dray(self, *arguments: str, status: int = 0, inside: bool = False) -> str:
        """Runs a command that finds the cluster by itself; `inside` if it sees the device files of the GPUs."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        done = subprocess.run(
            [*(self._prefix if inside else ()), *DRAY, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self.folder / "dray.kubeconfig")}
        pipe = subprocess.PIPE
        command = [*DRAY, "run", *arguments]
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def opened(self, *arguments: str) -> list[str]:
        """Returns the GPUs whose device files a job can open, and then their UUIDs."""
        out, err = self.run(*arguments, "--", "sh", "-c", f"{OPENED}; echo $CUDA_VISIBLE_DEVICES").communicate(
            timeout=PATIENCE
        )
        assert out, err
        return out.split()


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: podman has sockets in it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as made:
        yield Path(made)


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-1111-2222-3333-444444444444"


RUNTIMES = pytest.mark.parametrize("runtime", ["process", pytest.param("podman", marks=busybox.needs_podman)])


@RUNTIMES
def test_minor_numbers_that_are_not_the_indexes(folder: Path, runtime: str) -> None:
    machine = Machine(folder, gpus=2)
    image = ("--image", busybox.image()) if runtime == "podman" else ()
    up = machine.up("--runtime", runtime)
    try:
        assert "gpu: 2 × NVIDIA GeForce RTX 4090 (24 GiB) (class gpu.nvidia.com)" in wait(up)
        script = f"read go; {OPENED}; echo $CUDA_VISIBLE_DEVICES"
        jobs = [machine.run(*image, "--gpu", "1", "-i", "--name", name, "--", "sh", "-c", script) for name in "ab"]
        for job in jobs:
            assert job.stderr is not None
            assert "on node" in (line := job.stderr.readline()), line + job.stderr.read()
        ended = [job.communicate("go\n", timeout=PATIENCE) for job in jobs]
        found = sorted(out.split() for out, _ in ended)
        # The GPU with index 1 has minor number 0.
        assert found == [["0", uuid(1)], ["1", uuid(0)]], ended
        assert machine.opened(*image, "--gpu", "2") == ["0", "1", f"{uuid(1)},{uuid(0)}"]
        assert up.stop()[0] == 0
    finally:
        up.process.kill()
        up.process.communicate()


def test_gpus_with_mig_are_left_out_with_the_reason(folder: Path) -> None:
    machine = Machine(folder, gpus=8)
    up = machine.up()
    try:
        (line,) = [line for line in wait(up) if line.startswith("gpu:")]
        assert line.startswith("gpu: 6 × NVIDIA H100 80GB HBM3 (80 GiB) (class gpu.nvidia.com); left out: gpu-")
        *opened, uuids = machine.opened("--gpu", "6")
        # Minor numbers count down from 7.
        assert opened == ["0", "1", "2", "3", "4", "7"]
        assert uuids.split(",") == [uuid(7 - int(minor)) for minor in opened]
        assert up.stop()[0] == 0
    finally:
        up.process.kill()
        up.process.communicate()


def test_somebody_with_one_gpu_box_from_the_check_to_a_reboot(folder: Path) -> None:
    """The commands of docs/gpu-box.md, one after the other."""
    machine = Machine(folder, gpus=2)
    checks = machine.dray("doctor", status=1, inside=True).splitlines()
    # This machine has no CUDA.
    assert checks[0].startswith("error    gpu driver          no libcuda.so.1 in ")
    assert "ok       gpus                0: NVIDIA GeForce RTX 4090, 1: NVIDIA GeForce RTX 4090" in checks
    up = ("up", "--detach", "--node", "--data", "lab", "--port", "0")
    try:
        assert "gpu: 2 × NVIDIA GeForce RTX 4090 (24 GiB)" in machine.dray(*up, inside=True)
        assert "GPU-0000000" in machine.dray("run", "--gpu", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        script = ("--workdir", "/", "--", "sh", "-c", "echo begun; exec sleep 999")
        for name in ("training", "sweep"):
            machine.dray("run", "--gpu", "1", "--detach", "--name", name, *script)
        eventually(lambda: machine.dray("devices").splitlines()[-1] == "3 devices: 1 free, 2 allocated")
        machine.dray("run", "--gpu", "1", "--detach", "--name", "late", *script)
        why = eventually(lambda: "in use by" in (said := machine.dray("explain", "late", status=1)) and said)
        assert "default/training" in why
        machine.dray("delete", "pod", "sweep", "--grace-period", "0")
        eventually(lambda: _runs(machine, "late"))

        state = up_state.read(folder / "lab")
        assert state is not None
        kill_all(folder, state.pid)
        machine.dray(*up, inside=True)
        eventually(lambda: machine.dray("get", "pods").count("Error") == 2)
        assert machine.dray("logs", "training") == "begun\n"
        # The GPUs of the jobs are free again.
        assert machine.dray("run", "--gpu", "2", "--", "echo", "works").startswith("works\n")
    finally:
        machine.dray("down", "--pods", "--data", "lab")


def _runs(machine: Machine, name: str) -> bool:
    return f"{name} " in machine.dray("get", "pods") and "Running" in machine.dray("get", "pod", name)
