"""kill -9 of a driver in the midst of prepares and unprepares, over and over. DRAY_DRIVER_CYCLES sets how often.

The driver is a process of its own on the SDK; whenever it is dead it is started anew, as a DaemonSet does. After every
cycle nothing may be left: no device in use, no CDI file, no record of the driver, no claim at the kubelet. The driver
itself notes a device that it finds in the hands of another claim.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest

from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.objects import request
from tests.node.clusters import NODE, bound_pod, kubelet_on_cluster

from .gpu_driver import COUNT, DRIVER, GpuDriver
from .killed import KilledDriver

CYCLES = int(os.environ.get("DRAY_DRIVER_CYCLES", "12"))
PATIENCE = 60
SOURCE = Path(__file__).parents[2]


class Trial:
    """One kubelet and one driver process, which is killed at random and started anew."""

    def __init__(self, cluster, kubelet, rng):
        self.cluster = cluster
        self.kubelet = kubelet
        self.rng = rng
        self.hardware = GpuDriver(kubelet.root / "hardware")
        command = [sys.executable, "-m", "tests.driver.gpu_driver", kubelet.root, kubelet.root / "hardware"]
        process = kubelet.start_driver(command, {"PYTHONPATH": f"{SOURCE}:{SOURCE / 'src'}"})
        self.driver = KilledDriver(process, rng)

    def upset(self, schedule):
        self.driver.upset(schedule, within=0.03)

    async def cycle(self, number):
        free = [f"gpu-{index}" for index in range(COUNT)]
        self.rng.shuffle(free)
        names = [f"p{number}-{index}" for index in range(self.rng.randint(1, 3))]
        await asyncio.gather(*(self.life(name, self.devices(free)) for name in names))
        if self.rng.random() < 0.1:
            await self.kubelet.restart()
        await self.kubelet.eventually(self.clean, "nothing is left", PATIENCE)

    def devices(self, free):
        return [free.pop() for _ in range(self.rng.randint(1, 2)) if free]

    async def life(self, name, devices):
        """A pod with these devices, from its start to its end."""
        if not devices:
            return
        self.upset(self.kubelet.faults.next_prepare)
        results = [
            {"request": f"r{index}", "driver": DRIVER, "pool": NODE, "device": each}
            for index, each in enumerate(devices)
        ]
        requests = [request(each["request"]) for each in results]
        await bound_pod(self.cluster, name, (name, results, *requests))
        uid = (await self.cluster.get("ResourceClaim", name))["metadata"]["uid"]
        gives_up = self.rng.random() < 0.1
        try:
            started = await self.kubelet.start_pod(name, within=0 if gives_up else PATIENCE)
        except Exception:
            if not gives_up:
                raise
        else:
            assert started.env() == {f"GPU_{each.removeprefix('gpu-')}": uid for each in devices}
            assert [(self.hardware.hardware / each).read_text() for each in devices] == [uid] * len(devices)
        self.upset(self.kubelet.faults.next_unprepare)
        if self.rng.random() < 0.2:
            # Without waiting for the node: the kubelet finds out, and unprepares a claim that is gone.
            await self.cluster.delete("Pod", name)
        else:
            await self.kubelet.end_pod(name, within=PATIENCE)
        await self.cluster.delete("ResourceClaim", name)

    async def clean(self):
        records = list((self.kubelet.root / "plugins" / DRIVER / "claims").iterdir())
        files = [path.name for path in self.kubelet.cdi.iterdir()]
        return not (self.kubelet.prepared_claims or self.hardware.in_use or files or records)


@pytest.mark.time_limit(max(120, 6 * CYCLES))
async def test_kill_9_in_the_midst_of_it_leaves_nothing_half_prepared():
    seed = int(os.environ.get("DRAY_DRIVER_SEED", random.randrange(10**6)))
    print(f"DRAY_DRIVER_SEED={seed}")
    async with kubelet_on_cluster() as (cluster, kubelet), ApiEndpoint(cluster.application) as endpoint:
        kubelet.kubeconfig = endpoint.write_kubeconfig(kubelet.root / "kubeconfig")
        trial = Trial(cluster, kubelet, random.Random(seed))
        async with trial.driver.kept_alive():
            await kubelet.registered(DRIVER, within=PATIENCE)
            for number in range(CYCLES):
                await trial.cycle(number)
        assert not [line for line in trial.hardware.asked if "twice" in line]
        print(f"{trial.driver.kills} kills in {CYCLES} cycles")
        assert trial.driver.kills >= CYCLES // 10
