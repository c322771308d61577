"""`dray up --node` on a machine with GPUs: a library with NVML's symbols and device files stand in for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node.runtimes.device_files import can_hide
from tests.cli.gpu_box import Box
from tests.cli.running import PATIENCE, eventually, running
from tests.cli.test_up import wait
from tests.drivers.gpu.conftest import nvml_library
from tests.drivers.gpu.machines import GpuMachine, gpus_of

__all__ = ["nvml_library"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not can_hide(), reason="device files are made by root")


@pytest.fixture
def box(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of("workstation-rtx4090"))
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    return Box(tmp_path, machine)


def test_two_jobs_open_one_gpu_each_and_not_that_of_the_other(box: Box) -> None:
    box.machine.write("utilization", 37, 0)
    box.machine.write("memory_used_mib", 1024, 0)
    with running("up", "--port", "0", "--node", *box.driver, cwd=box.folder) as up:
        assert "gpu: 2 × NVIDIA GeForce RTX 4090 (24 GiB) (class gpu.nvidia.com)" in wait(up)
        jobs = box.hold()
        eventually(lambda: box.utilization() == {"gpu-0": (37, 1 << 30), "gpu-1": (0, 0)})
        assert box.release(jobs) == [(gpu.minor, gpu.uuid) for gpu in box.machine.gpus]
        both = box.start("run", "--gpu", "2", "--", "sh", "-c", box.opened())
        out, err = both.communicate(timeout=PATIENCE)
        assert out.splitlines() == ["opened 0", "opened 1", ",".join(gpu.uuid for gpu in box.machine.gpus)], err
        none = box.start("run", "--", "sh", "-c", box.opened())
        assert none.communicate(timeout=PATIENCE)[0] == "\n"
        up.stop()


def test_gpus_with_mig_on_are_left_out_and_the_others_are_offered(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of("p5.48xlarge", 8), mig=(2, 3))
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    box = Box(tmp_path, machine)
    with running("up", "--port", "0", "--node", *box.driver, cwd=box.folder) as up:
        (line,) = [line for line in wait(up) if line.startswith("gpu:")]
        assert line.startswith("gpu: 6 × NVIDIA H100 80GB HBM3 (80 GiB) (class gpu.nvidia.com); left out: gpu-")
        assert box.release(box.hold()) == [(gpu.minor, gpu.uuid) for gpu in machine.gpus[:2]]
        # All that are offered: those with MIG are not among them.
        job = box.start("run", "--gpu", "6", "--", "sh", "-c", box.opened())
        out, err = job.communicate(timeout=PATIENCE)
        assert out.splitlines()[:-1] == [f"opened {number}" for number in (0, 1, 4, 5, 6, 7)], err
        up.stop()


def test_a_driver_that_fails_leaves_the_rest_working(box: Box) -> None:
    """The kernel module is not loaded."""
    (box.machine.state / "fail/nvmlInitWithFlags").write_text("9")
    with running("up", "--port", "0", "--node", *box.driver, cwd=box.folder) as up:
        (line,) = [line for line in wait(up) if line.startswith("gpu:")]
        assert "not offered yet" in line
        job = box.start("run", "--", "echo", "works")
        assert job.communicate(timeout=PATIENCE)[0] == "works\n"
        # It is offered once it is there.
        (box.machine.state / "fail/nvmlInitWithFlags").unlink()
        job = box.start("run", "--gpu", "1", "--", "echo", "gpu")
        out, err = job.communicate(timeout=PATIENCE)
        assert out == "gpu\n", err
        up.stop()


def test_drivers_are_chosen_by_name(box: Box) -> None:
    with running("up", "--port", "0", "--node", "--no-driver", "gpu", "--no-driver", "cpu", cwd=box.folder) as up:
        lines = wait(up)
        assert "gpu: switched off by --no-driver" in lines
        job = box.start("get", "resourceslices")
        assert job.communicate(timeout=PATIENCE)[0] == ""
        up.stop()
