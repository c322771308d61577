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
from tests.cli.running import DRAY, PATIENCE, Running
from tests.cli.test_up import wait
from tests.drivers.gpu.machines import FEW_SYMBOLS, compile_library
from tests.node.runtimes import busybox

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not can_hide() or shutil.which("unshare") is None, reason="device files are made by root"
)
# A copy of /dev with device files of GPUs, seen by what is started after it alone.
NAMESPACE = """
set -e
mkdir dev
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
