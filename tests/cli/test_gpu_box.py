"""`dray up --node` on a machine with GPUs: a library with NVML's symbols and device files stand in for them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node.runtimes.device_files import can_hide
from tests.cli.running import DRAY, PATIENCE, eventually, running
from tests.cli.test_up import wait
from tests.drivers.gpu.conftest import nvml_library
from tests.drivers.gpu.machines import GpuMachine, gpus_of

__all__ = ["nvml_library"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not can_hide(), reason="device files are made by root")
ZERO = os.makedev(1, 5)
# Of both GPUs, those whose files can be opened.
OPENED = "for n in 0 1; do head -c 1 {dev}/nvidia$n >/dev/null 2>&1 && echo opened $n; done; echo $CUDA_VISIBLE_DEVICES"


class Box:
    def __init__(self, folder: Path, machine: GpuMachine) -> None:
        self.folder = folder
        self.machine = machine
        self.dev = machine.root / "host/dev"
        for path in self.dev.iterdir():
            path.unlink()
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, ZERO)
            except OSError:
                pytest.skip("this root may make no device files")
        settings = ",".join(f"{key}={value}" for key, value in machine.settings().items())
        self.options = ("--driver", f"gpu:{settings}")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {"KUBECONFIG": str(self.folder / "dray.kubeconfig"), "PATH": os.environ["PATH"]}
        return subprocess.Popen(
            [*DRAY, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def utilization(self) -> dict[str, tuple[int | None, int | None]]:
        """Returns percent and memory in use of each GPU that has a report, as `dray devices` shows them."""
        out, _ = self.start("devices", "--driver", "gpu.nvidia.com", "-o", "json").communicate(timeout=PATIENCE)
        reports = {each["device"]: each["utilization"] for each in json.loads(out)}
        return {name: (each.get("percent"), each.get("memoryUsedBytes")) for name, each in reports.items() if each}


@pytest.fixture
def box(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Box]:
    machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of("g6.48xlarge", 2))
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    return Box(tmp_path, machine)


def test_two_jobs_open_one_gpu_each_and_not_that_of_the_other(box: Box) -> None:
    box.machine.write("utilization", 37, 0)
    box.machine.write("memory_used_mib", 1024, 0)
    with running("up", "--port", "0", "--node", *box.options, cwd=box.folder) as up:
        lines = wait(up)
        assert "gpu: 2 × NVIDIA L4 (22 GiB) (class gpu.nvidia.com)" in lines
        go = box.folder / "go"
        script = f"while ! test -e {go}; do sleep 0.05; done; {OPENED.format(dev=box.dev)}"
        jobs = [box.start("run", "--gpu", "1", "--name", name, "--", "sh", "-c", script) for name in "ab"]
        # Both hold their GPU at the same time.
        for job in jobs:
            assert job.stderr is not None
            assert "on node" in job.stderr.readline()
        eventually(lambda: box.utilization() == {"gpu-0": (37, 1 << 30), "gpu-1": (0, 0)})
        go.touch()
        found = []
        for job in jobs:
            out, err = job.communicate(timeout=PATIENCE)
            assert job.returncode == 0, err
            opened, uuid = out.splitlines()
            found.append((int(opened.removeprefix("opened ")), uuid))
        assert sorted(found) == [(gpu.minor, gpu.uuid) for gpu in box.machine.gpus]
        both = box.start("run", "--gpu", "2", "--", "sh", "-c", OPENED.format(dev=box.dev))
        out, err = both.communicate(timeout=PATIENCE)
        assert out.splitlines() == ["opened 0", "opened 1", ",".join(gpu.uuid for gpu in box.machine.gpus)], err
        none = box.start("run", "--", "sh", "-c", OPENED.format(dev=box.dev))
        assert none.communicate(timeout=PATIENCE)[0] == "\n"
        up.stop()


def test_gpus_with_mig_on_are_left_out_and_the_others_are_offered(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of("p5.48xlarge", 8), mig=(2, 3))
    monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
    box = Box(tmp_path, machine)
    with running("up", "--port", "0", "--node", *box.options, cwd=box.folder) as up:
        (line,) = [line for line in wait(up) if line.startswith("gpu:")]
        assert line.startswith("gpu: 6 × NVIDIA H100 80GB HBM3 (80 GiB) (class gpu.nvidia.com); left out: gpu-")
        job = box.start("run", "--gpu", "2", "--", "sh", "-c", OPENED.format(dev=box.dev))
        out, err = job.communicate(timeout=PATIENCE)
        assert out.splitlines() == ["opened 0", "opened 1", ",".join(gpu.uuid for gpu in machine.gpus[:2])], err
        up.stop()


def test_a_driver_that_fails_leaves_the_rest_working(box: Box) -> None:
    """The kernel module is not loaded."""
    (box.machine.state / "fail/nvmlInitWithFlags").write_text("9")
    with running("up", "--port", "0", "--node", *box.options, cwd=box.folder) as up:
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
