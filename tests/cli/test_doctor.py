"""`dray doctor`: one line and a remedy for each check, on machines with GPUs that a library stands in for."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dray.cli.doctor_checks import gpu_probe
from tests.drivers.gpu.conftest import nvml_library
from tests.drivers.gpu.machines import DRIVER_VERSION, GpuMachine, gpus_of

__all__ = ["nvml_library"]
Dray = Callable[..., Result]
Checks = dict[str, dict[str, Any]]


class Doctor:
    """A machine with GPUs, and what the command says about it."""

    def __init__(self, run: Dray, folder: Path, machine: GpuMachine) -> None:
        self._run = run
        self._folder = folder
        self.machine = machine
        self.dev = machine.root / "host/dev"
        settings = ",".join(f"{key}={value}" for key, value in machine.settings().items())
        self.arguments = ("doctor", "--data", str(folder), "--port", "0", "--driver", f"gpu:{settings}")

    def checks(self) -> Checks:
        result = self._run(*self.arguments, "-o", "json")
        found = json.loads(result.stdout)
        failed = any(check["level"] == "error" for check in found["checks"])
        assert (result.exit_code, found["ok"]) == ((1, False) if failed else (0, True))
        # Every problem has a remedy.
        assert all(check["remedy"] for check in found["checks"] if check["level"] in ("error", "warning"))
        return {check["name"]: check for check in found["checks"]}

    def text(self) -> str:
        return self._run(*self.arguments).stdout


@pytest.fixture
def make(run: Dray, nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Doctor]:
    def made(machine_type: str, count: int = 2, mig: tuple[int, ...] = ()) -> Doctor:
        machine = GpuMachine(tmp_path / "machine", nvml_library, gpus_of(machine_type, count), mig)
        monkeypatch.setenv("NVML_STAND_IN", str(machine.state))
        return Doctor(run, tmp_path, machine)

    return made


def test_a_box_with_two_l4_has_no_gpu_problem(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    checks = doctor.checks()
    names = ("gpu driver", "gpus", "gpu device files", "persistence mode", "mig", "compute mode", "mps")
    assert {checks[name]["level"] for name in names} == {"ok"}, checks
    assert checks["gpus"]["message"] == "0: NVIDIA L4, 1: NVIDIA L4"
    assert f"version {DRIVER_VERSION}" in checks["gpu driver"]["message"]
    assert "nvidia-uvm, nvidia0, nvidia1" in checks["gpu device files"]["message"]
    line = next(line for line in doctor.text().splitlines() if " gpus " in line)
    assert line.split() == "ok gpus 0: NVIDIA L4, 1: NVIDIA L4".split()


def test_library_and_kernel_module_that_differ(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    module = doctor.machine.state / "proc/driver/nvidia/version"
    module.parent.mkdir(parents=True)
    module.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu Jan 23 22:51:41 UTC 2025\n")
    driver = doctor.checks()["gpu driver"]
    assert driver["level"] == "error"
    assert driver["message"] == f"the library is {DRIVER_VERSION} and the kernel module is 570.86.10"
    assert driver["remedy"].startswith("reboot")
    module.write_text(f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER_VERSION}  Release Build\n")
    assert doctor.checks()["gpu driver"]["level"] == "ok"


def test_cuda_programs_need_the_library_of_the_same_driver(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    libraries = doctor.machine.driver_root / "usr/lib/x86_64-linux-gnu"
    (libraries / "libcuda.so.1").unlink()
    (libraries / "libcuda.so.570.86.10").touch()
    assert "no libcuda.so.1" in doctor.checks()["gpu driver"]["message"]
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.570.86.10")
    driver = doctor.checks()["gpu driver"]
    assert (driver["level"], "libcuda.so.570.86.10 is of another version" in driver["message"]) == ("error", True)


def test_a_check_that_fails_itself_keeps_no_other_from_running(
    run: Dray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> bool:
        raise PermissionError(13, "Permission denied", "/usr/bin/python3")

    monkeypatch.setattr("dray.cli.doctor_checks.system.can_hide", fails)
    result = run("doctor", "--data", str(tmp_path), "--port", "0")
    (line,) = [line for line in result.stdout.splitlines() if " namespaces " in line]
    assert line.startswith("warning")
    assert "cannot be checked: [Errno 13] Permission denied" in line
    assert " disk space " in result.stdout


@pytest.mark.parametrize(
    ("code", "said"),
    [("9", "the kernel module of the NVIDIA driver is not loaded"), ("18", "library and kernel module")],
)
def test_a_library_that_cannot_be_used(make: Callable[..., Doctor], code: str, said: str) -> None:
    doctor = make("g6.48xlarge")
    doctor.machine.fail("nvmlInitWithFlags", code)
    driver = doctor.checks()["gpu driver"]
    assert (driver["level"], said in driver["message"]) == ("error", True), driver


def test_a_library_that_hangs_is_given_up(make: Callable[..., Doctor], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_probe, "_SECONDS", 1.5)
    doctor = make("g6.48xlarge")
    doctor.machine.hang("nvmlInitWithFlags", 20)
    driver = doctor.checks()["gpu driver"]
    assert (driver["level"], driver["message"]) == ("error", "NVIDIA's library has not answered within 1.5 s")


def test_missing_device_files_are_named(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    for name in ("nvidia-uvm", "nvidia1"):
        (doctor.dev / name).unlink()
    files = doctor.checks()["gpu device files"]
    assert files["level"] == ("warning" if os.geteuid() == 0 else "error")
    assert files["message"] == f"missing: {doctor.dev}/nvidia-uvm, {doctor.dev}/nvidia1"
    assert "nvidia-modprobe" in files["remedy"]


def test_modes_that_surprise_people(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    doctor.machine.write("persistence_mode", 0, number=1)
    doctor.machine.write("compute_mode", 3, number=0)
    checks = doctor.checks()
    assert (checks["persistence mode"]["level"], "off for GPU 1" in checks["persistence mode"]["message"]) == (
        "warning",
        True,
    )
    assert (checks["compute mode"]["level"], checks["compute mode"]["remedy"]) == ("warning", "nvidia-smi -c 0 -i 0")
    doctor.machine.write("compute_mode", 2, number=1)
    assert doctor.checks()["compute mode"]["level"] == "error"


def test_mig_without_partitions_and_with_them(make: Callable[..., Doctor]) -> None:
    doctor = make("p5.48xlarge", 2, mig=(1,))
    mig = doctor.checks()["mig"]
    assert (mig["level"], "MIG is on for GPU 1 and there are no partitions" in mig["message"]) == ("warning", True)
    assert "DynamicMIG=true" in mig["remedy"]
    doctor.machine.put_instance(1, 3, 9, 0, 4)
    mig = doctor.checks()["mig"]
    assert (mig["level"], mig["message"]) == ("ok", "on for GPU 1 (1 partition)")


def test_an_mps_daemon_that_dray_did_not_start(make: Callable[..., Doctor], tmp_path: Path) -> None:
    doctor = make("g6.48xlarge")
    program = tmp_path / "nvidia-cuda-mps-control"
    shutil.copyfile(shutil.which("sleep") or "", program)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with subprocess.Popen([program, "60"], env={"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps"}) as daemon:
        # This process is all that the machine has; others may run tests of MPS at the same time.
        (doctor.machine.state / f"proc/{daemon.pid}").symlink_to(f"/proc/{daemon.pid}")
        try:
            mps = doctor.checks()["mps"]
        finally:
            daemon.kill()
    assert mps["level"] == "warning"
    assert f"process {daemon.pid} (/tmp/nvidia-mps)" in mps["message"]


def test_a_gpu_on_the_bus_without_its_driver_is_an_error(make: Callable[..., Doctor]) -> None:
    doctor = make("g6.48xlarge")
    for path in (doctor.machine.driver_root / "usr/lib/x86_64-linux-gnu").iterdir():
        path.unlink()
    driver = doctor.checks()["gpu driver"]
    assert (driver["level"], driver["message"].startswith("2 NVIDIA GPUs are on the PCI bus")) == ("error", True)
    assert "install" in driver["remedy"]


def test_the_machine_is_checked(run: Dray, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("doctor", "--data", str(tmp_path / "not/yet"), "--port", str(port), "-o", "json")
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["port"]["level"] == "warning"
    assert str(port) in checks["port"]["message"]
    expected = {"cgroups", "namespaces", "open files", "clock", "disk space", "kubectl", "clusters", "podman", "tpu"}
    assert expected <= checks.keys()
    assert f"free at {tmp_path}" in checks["disk space"]["message"]


def test_settings_of_other_drivers_are_a_mistake(run: Dray) -> None:
    assert run("doctor", "--driver", "nic").exit_code == 2
    assert "unknown field `nonsense`" in run("doctor", "--driver", "gpu:nonsense=1").output
