"""Two jobs on one box with GPUs, for a user who is not root and in containers of podman: each opens its own GPU."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.gpu_box import Box
from tests.cli.nobody import needs_user_namespaces, nobody, ready
from tests.cli.running import PATIENCE, running
from tests.cli.test_up import wait
from tests.drivers.gpu.conftest import nvml_library
from tests.drivers.gpu.machines import GpuMachine, gpus_of
from tests.node.runtimes import busybox

__all__ = ["nvml_library"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="device files are made by root")
BOXES = pytest.mark.parametrize(
    ("machine_type", "mig", "offered"),
    [
        ("workstation-rtx4090", (), "gpu: 2 × NVIDIA GeForce RTX 4090 (24 GiB) (class gpu.nvidia.com)"),
        ("p5.48xlarge", (2, 3), "gpu: 6 × NVIDIA H100 80GB HBM3 (80 GiB) (class gpu.nvidia.com); left out: gpu-"),
    ],
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: drivers have sockets in it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as made:
        yield Path(made)


@needs_root
@BOXES
def test_an_ordinary_user(nvml_library: Path, machine_type: str, mig: tuple[int, ...], offered: str) -> None:
    needs_user_namespaces()
    with nobody() as user:
        library = Path(shutil.copy(nvml_library, user.folder))
        machine = GpuMachine(user.folder / "machine", library, gpus_of(machine_type), mig)
        # Only root has MPS daemons with shared memory of their own.
        box = Box(user.folder, machine, program=user.program, options=user.options, mpsSharedMemory="host")
        user.own(machine.root)
        up = ("up", "--port", "0", "--node", *box.driver)
        with user.running(*up, NVML_STAND_IN=str(machine.state)) as process:
            assert any(line.startswith(offered) for line in ready(process))
            assert box.release(box.hold()) == [(gpu.minor, gpu.uuid) for gpu in machine.gpus[:2]]
            none = box.start("run", "--", "sh", "-c", box.opened())
            assert none.communicate(timeout=PATIENCE)[0] == "\n"


@needs_root
@busybox.needs_podman
@BOXES
def test_containers_of_podman(
    nvml_library: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine_type: str,
    mig: tuple[int, ...],
    offered: str,
) -> None:
    image = busybox.image()
    machine = GpuMachine(folder / "machine", nvml_library, gpus_of(machine_type), mig)
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    box = Box(folder, machine)
    with running("up", "--port", "0", "--node", "--runtime", "podman", *box.driver, cwd=folder) as up:
        assert any(line.startswith(offered) for line in wait(up))
        jobs = box.hold("--image", image, dev=Path("/dev"))
        assert box.release(jobs) == [(gpu.minor, gpu.uuid) for gpu in machine.gpus[:2]]
        none = box.start("run", "--image", image, "--", "sh", "-c", box.opened(Path("/dev")))
        assert none.communicate(timeout=PATIENCE)[0] == "\n"
        up.stop()
