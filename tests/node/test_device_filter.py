"""Device filters of cgroup v2: the instructions, and what the kernel makes of them."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.node import device_filter
from dray.node.device_filter import DeviceNumber, attach, program
from tests.node.unified_hierarchy import unified_hierarchy

# Nothing has these numbers: a device that may be opened does not exist then.
FIRST, SECOND = DeviceNumber("c", 240, 1), DeviceNumber("c", 240, 2)


def test_instructions_compare_type_major_and_minor() -> None:
    assert program([FIRST]).hex(" ", 8).split() == [
        "6112000000000000",  # type of the device and of the access
        "540200" + "00ffff0000",
        "6113040000000000",  # major
        "6114080000000000",  # minor
        "5502040002000000",  # type c
        "55030300f0000000",
        "5504020001000000",
        "b700000000000000",  # refused
        "9500000000000000",
        "b700000001000000",  # allowed
        "9500000000000000",
    ]


def test_other_machines_have_no_filters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    with pytest.raises(OSError, match="dray does not know the bpf system call of sparc"):
        attach(tmp_path, [FIRST])


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root loads programs into the kernel")
    if why := device_filter.why_not():
        pytest.skip(f"no BPF program can be loaded: {why}")
    with unified_hierarchy(tmp_path / "cgroup2") as root:
        made = root / f"dray-test-{os.getpid()}"
        made.mkdir()
        yield made
        made.rmdir()


def outcomes(cgroup: Path, *devices: Path) -> list[str]:
    """Returns what processes of the control group get when they open these files."""
    script = (
        "import errno, os, sys\n"
        "open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "for path in sys.argv[2:]:\n"
        "    try:\n"
        "        os.close(os.open(path, os.O_RDONLY))\n"
        "        print('opened')\n"
        "    except OSError as error:\n"
        "        print(errno.errorcode[error.errno])\n"
    )
    command = [sys.executable, "-c", script, str(cgroup), *map(str, devices)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_kernel_takes_the_program_and_refuses_the_devices(cgroup: Path, tmp_path: Path) -> None:
    files = []
    for device in (FIRST, SECOND):
        files.append(tmp_path / f"{device.minor}")
        os.mknod(files[-1], stat.S_IFCHR | 0o666, os.makedev(device.major, device.minor))
    if outcomes(cgroup, *files) != ["ENXIO", "ENXIO"]:
        pytest.skip("this root may not open device files")
    attach(cgroup, [FIRST])
    refused = errno.errorcode[errno.EPERM]
    assert outcomes(cgroup, *files, Path("/dev/null")) == [refused, "ENXIO", "opened"]
    # A second filter adds to the first.
    attach(cgroup, [DeviceNumber("b", 1, 1), SECOND])
    assert outcomes(cgroup, *files, Path("/dev/null")) == [refused, refused, "opened"]


def test_one_program_refuses_many_devices(cgroup: Path) -> None:
    attach(cgroup, [DeviceNumber("c", 240, minor) for minor in range(700)])
    assert outcomes(cgroup, Path("/dev/null")) == ["opened"]
