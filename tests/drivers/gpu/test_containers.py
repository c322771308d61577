"""Claims as containers see them, run by dray's own runtime: device files that only the kernel knows, and libraries."""

import os
import sys

import pytest

from dray.node.runtimes.configs import ContainerConfig, SandboxConfig
from dray.node.runtimes.process import ProcessRuntime

from .world import gpu_world

SCRIPT = """
import ctypes, os, stat
ctypes.CDLL("libnvidia-ml.so.1")
for name in sorted(os.listdir("/dev/nvidia-caps")):
    found = os.stat("/dev/nvidia-caps/" + name)
    print(name, stat.filemode(found.st_mode), os.major(found.st_rdev), os.minor(found.st_rdev))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root mounts files and makes device files")
@pytest.mark.skipif(os.path.exists("/dev/nvidia-caps"), reason="this machine has files of MIG partitions")
async def test_a_partition_that_was_made_for_a_claim(gpu_machine, tmp_path):
    machine = gpu_machine("p5.48xlarge", 1)
    async with gpu_world(machine) as world, world.driver(DynamicMIG=True):
        claim = await world.place("p", "gpu-0-mig-3g40gb-9-4")
        started = await world.kubelet.start_pod("p")
        uid = started.pod["metadata"]["uid"]
        runtime = ProcessRuntime(tmp_path / "run", cdi_directories=[world.kubelet.cdi])
        await runtime.create_sandbox(SandboxConfig(pod_uid=uid, namespace="default", name="p"))
        config = ContainerConfig(
            pod_uid=uid,
            namespace="default",
            pod_name="p",
            name="main",
            attempt=0,
            image="busybox",
            command=(sys.executable, "-c", SCRIPT),
            args=(),
            log_path=tmp_path / "log",
            cdi_devices=tuple(started.cdi_ids["main"]),
        )
        state = await runtime.wait((await runtime.start(config)).id)
        lines = [line.split(maxsplit=3)[3] for line in config.log_path.read_text().splitlines()]
        await runtime.remove_sandbox(uid)
        (device,) = world.cdi(claim)["devices"]
        nodes = device["containerEdits"]["deviceNodes"]
        minors = sorted(node["minor"] for node in nodes if "minor" in node)
        assert (state.exit_code, lines) == (0, [f"nvidia-cap{minor} cr--r--r-- 240 {minor}" for minor in minors])
        assert len(minors) == 2
        await world.kubelet.end_pod("p")
        assert not os.path.exists("/dev/nvidia-caps")
