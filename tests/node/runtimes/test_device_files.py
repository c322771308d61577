"""Device files of drivers in the process runtime: a container opens those of its claims and no others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dray.driver.options import DEVICE_FILES
from dray.node import device_filter
from dray.node.cgroups import Cgroups
from dray.node.runtimes.configs import ContainerConfig, Mount, SandboxConfig, Security
from dray.node.runtimes.device_files import can_hide, hidden_files
from dray.node.runtimes.process import ProcessRuntime
from dray.node.runtimes.shim import system
from tests.node.unified_hierarchy import unified_hierarchy

NAMESPACES = pytest.mark.skipif(not can_hide(), reason="this user may make no mount namespaces")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory of device files, and that of a driver that gives them to pods."""
    (tmp_path / "dev").mkdir()
    for number in range(3):
        os.mkfifo(tmp_path / f"dev/lamp{number}")
    (tmp_path / "dev/other").write_text("other\n")
    directory = tmp_path / "plugins/lamps.example.com"
    directory.mkdir(parents=True)
    (directory / DEVICE_FILES).write_text(f'["{tmp_path}/dev/lamp[0-9]*"]')
    return tmp_path


def test_files_of_other_claims_are_hidden(machine: Path) -> None:
    found = hidden_files(machine / "plugins", [str(machine / "dev/lamp1")])
    assert found == [str(machine / "dev/lamp0"), str(machine / "dev/lamp2")]


@pytest.mark.parametrize("content", ["", "{}", '["relative*"]', "[1]", "x" * (1 << 17)])
def test_a_damaged_list_hides_nothing_and_harms_nothing(machine: Path, content: str) -> None:
    (machine / "plugins/lamps.example.com" / DEVICE_FILES).write_text(content)
    assert hidden_files(machine / "plugins", []) == []


def config(machine: Path, *devices: str, **members: object) -> ContainerConfig:
    script = f"for f in {machine}/dev/*; do test -p $f && echo $(basename $f); done; cat {machine}/dev/other"
    return ContainerConfig(
        pod_uid="uid",
        namespace="default",
        pod_name="p",
        name="main",
        attempt=0,
        image="busybox",
        command=("sh", "-c", script),
        args=(),
        log_path=machine / "log",
        cdi_devices=devices,
        **members,  # type: ignore[arg-type]
    )


@pytest.fixture
def runtime(machine: Path) -> ProcessRuntime:
    (machine / "cdi").mkdir()
    node = f'{{"path": "{machine}/dev/lamp1"}}'
    device = f'{{"name": "one", "containerEdits": {{"deviceNodes": [{node}]}}}}'
    (machine / "cdi/lamps.json").write_text(f'{{"cdiVersion": "0.6.0", "kind": "x/lamp", "devices": [{device}]}}')
    return ProcessRuntime(machine / "run", cdi_directories=[machine / "cdi"], plugins=machine / "plugins")


async def seen(runtime: ProcessRuntime, config: ContainerConfig) -> list[str]:
    await runtime.create_sandbox(SandboxConfig(pod_uid="uid", namespace="default", name="p"))
    try:
        await runtime.wait((await runtime.start(config)).id)
        return [line.split(" ", 3)[3] for line in config.log_path.read_text().splitlines()]
    finally:
        await runtime.remove_sandbox("uid")


@NAMESPACES
async def test_a_container_sees_the_files_of_its_claim_alone(runtime: ProcessRuntime, machine: Path) -> None:
    assert await seen(runtime, config(machine, "x/lamp=one")) == ["lamp1", "other"]
    # The machine itself still has them.
    assert stat.S_ISFIFO((machine / "dev/lamp0").stat().st_mode)


@NAMESPACES
async def test_a_container_without_a_claim_sees_no_device_files_of_drivers(
    runtime: ProcessRuntime, machine: Path
) -> None:
    assert await seen(runtime, config(machine)) == ["other"]


async def test_a_privileged_container_sees_all_device_files(runtime: ProcessRuntime, machine: Path) -> None:
    privileged = config(machine, security=Security(privileged=True))
    assert await seen(runtime, privileged) == ["lamp0", "lamp1", "lamp2", "other"]


@pytest.fixture(params=["version 1", "version 2"])
def cgroups(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cgroups]:
    """Control groups with device rules; those of version 2 are mounted for the test if the machine uses version 1."""
    if os.geteuid() != 0:
        pytest.skip("device files are made by root")
    if request.param == "version 1":
        if not os.access("/sys/fs/cgroup/devices", os.W_OK):
            pytest.skip("no control groups of version 1 for devices")
        yield Cgroups()
        return
    if why := device_filter.why_not():
        pytest.skip(f"no BPF program can be loaded: {why}")
    with unified_hierarchy(tmp_path / "cgroup2") as root:
        yield Cgroups(root, "dray-test")


async def test_root_cannot_open_a_hidden_device_by_another_name(cgroups: Cgroups, machine: Path) -> None:
    hidden, other = machine / "dev/lamp0", machine / "other"
    hidden.unlink()
    number = openable_device()
    for path in (hidden, other):
        os.mknod(path, stat.S_IFCHR | 0o666, number)
    runtime = ProcessRuntime(machine / "rules", cdi_directories=[], plugins=machine / "plugins", cgroups=cgroups)
    script = f"( : < {other} ) 2> /dev/null && echo opened || echo refused; : < /dev/null && echo others opened"
    tries = replace(config(machine), command=("sh", "-c", script))
    assert await seen(runtime, tries) == ["refused", "others opened"]
    privileged = replace(tries, security=Security(privileged=True), log_path=machine / "privileged")
    assert await seen(runtime, privileged) == ["opened", "others opened"]
    assert not cgroups.why_no_device_rules()


async def test_a_node_without_device_rules_says_so(
    machine: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    runtime = ProcessRuntime(machine / "run", cdi_directories=[], plugins=machine / "plugins", cgroups=Cgroups(machine))
    await runtime.version()
    (said,) = [record.message for record in caplog.records if "device rules" in record.message]
    assert said.startswith("no device rules in control groups (no control groups that this user may write): a pod that")


def openable_device() -> int:
    """The number of a device that root can open here, by a node anywhere."""
    for path in ("/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/vhost-net", "/dev/hwrng"):
        with suppress(OSError), open(path, "rb", buffering=0):
            return os.stat(path).st_rdev
    pytest.skip("no device that could be opened")


@NAMESPACES
async def test_files_are_hidden_under_every_name_that_a_pod_mounts_them_at(
    runtime: ProcessRuntime, machine: Path, outside: Path
) -> None:
    """A subPath of a hostPath is mounted by the agent, before anything is hidden."""
    mounts = (Mount(str(outside / "all"), "/mnt/all"), Mount(str(outside / "one"), "/mnt/one"))
    script = "for f in /mnt/all/* /mnt/one; do test -p $f && echo $f; done; cat /mnt/all/other"
    given = replace(config(machine, "x/lamp=one"), mounts=mounts, command=("sh", "-c", script))
    assert await seen(runtime, given) == ["/mnt/all/lamp1", "other"]


@pytest.fixture
def outside(machine: Path) -> Iterator[Path]:
    """Mounts of the device files that are there before the container: of their directory, and of one file."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    place = machine / "outside"
    (place / "all").mkdir(parents=True)
    (place / "one").touch()
    system.bind(str(machine / "dev"), str(place / "all"))
    system.bind(str(machine / "dev/lamp2"), str(place / "one"))
    yield place
    system.unmount(str(place / "all"))
    system.unmount(str(place / "one"))
