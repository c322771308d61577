"""Containers run by runc beside a driver, with bundles where containerd would keep them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dray.node.cpusets.lists import parse_cpuset
from tests.node.runtimes import busybox

# As containerd's shim: runs in the bundle of the pod's sandbox, starts containers, and is their parent when runc ends.
SHIM = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
subprocess.run(sys.argv[1:], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print("started", flush=True)
sys.stdin.read()
"""


def write_spec(directory, environment, command=("true",), **members):
    """An OCI spec of a container in its bundle."""
    directory.mkdir(parents=True, exist_ok=True)
    process = {
        "user": {"uid": 0, "gid": 0},
        "args": list(command),
        "env": ["PATH=/bin", *(f"{name}={value}" for name, value in environment.items())],
        "cwd": "/",
    }
    spec = {"ociVersion": "1.0.2", "process": process, "root": {"path": "rootfs"}, **members}
    (directory / "config.json").write_text(json.dumps(spec))


class Runc:
    """`cgroup` is the path of the test's own part of the machine's cgroups."""

    def __init__(self, directory, cgroup):
        if why := busybox.why_not():
            pytest.skip(why)
        self._state = directory / "runc"
        self.bundles = directory / "bundles"
        self.bundles.mkdir()
        self._cgroup = cgroup
        self._started = []
        self._shims = []

    def start(self, pod, name, command, environment=None):
        """Gives the process id of the container's first process."""
        bundle = self.bundles / name
        (bundle / "rootfs/bin").mkdir(parents=True)
        (bundle / "rootfs/proc").mkdir()
        shutil.copy(shutil.which("busybox"), bundle / "rootfs/bin/busybox")
        for applet in ("sh", "sleep"):
            (bundle / "rootfs/bin" / applet).symlink_to("busybox")
        linux = {
            "cgroupsPath": f"{self._cgroup}/kubepods/burstable/pod{pod}/{name}",
            "namespaces": [{"type": namespace} for namespace in ("pid", "mount", "ipc", "uts")],
        }
        proc = {"destination": "/proc", "type": "proc", "source": "proc"}
        write_spec(bundle, environment or {}, command, linux=linux, mounts=[proc])
        sandbox = self.bundles / f"sandbox-of-{pod}"
        sandbox.mkdir(exist_ok=True)
        run = ["runc", "--root", self._state, "run", "--detach", "--bundle", bundle, name]
        shim = subprocess.Popen(
            [sys.executable, "-c", SHIM, *map(str, run)], cwd=sandbox, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._shims.append(shim)
        self._started.append(name)
        assert shim.stdout.readline() == b"started\n"
        return json.loads(self._runc("state", name))["pid"]

    def delete(self, name):
        self._runc("delete", "--force", name)
        shutil.rmtree(self.bundles / name)
        self._started.remove(name)

    def close(self):
        for name in list(self._started):
            self.delete(name)
        for shim in self._shims:
            shim.stdin.close()
            shim.stdout.close()
            shim.wait(10)
        for group in Path("/sys/fs/cgroup").glob(f"*{self._cgroup}"):
            below = (path for path in group.rglob("*") if path.is_dir())
            for directory in (*sorted(below, reverse=True), group):
                directory.rmdir()

    def _runc(self, *arguments):
        command = ["runc", "--root", self._state, *arguments]
        return subprocess.run(command, check=True, capture_output=True).stdout


def allowed_cpus(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return parse_cpuset(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list:")))


def environment_names(pid):
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return {entry.partition(b"=")[0].decode() for entry in entries}
