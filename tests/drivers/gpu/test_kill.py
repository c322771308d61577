"""kill -9 of the driver while it prepares and unprepares, in every way to share. DRAY_DRIVER_CYCLES sets how often.

The driver is a process of its own, started anew whenever it is dead. While a pod runs, everything that its claim
needs is there; after every cycle nothing is left: no GPU instance, MIG mode, MPS daemon, compute mode, time slice,
CDI file, record.
"""

import asyncio
import contextlib
import os
import random
import sys
from pathlib import Path

import pytest

from dray.testing.api_endpoint import ApiEndpoint
from tests.driver.killed import KilledDriver

from .world import GPU, gpu_world, mps, time_slicing

CYCLES = int(os.environ.get("DRAY_DRIVER_CYCLES", "2"))
PATIENCE = 60
DRAY = Path(sys.executable).with_name("dray")
SHARE = "00000000-0000-4000-8000-00000000000{}"


class Trial:
    """A machine whose driver is killed at random."""

    def __init__(self, world, rng, **settings):
        self.world = world
        self.rng = rng
        kubelet, machine = world.kubelet, world.machine
        chosen = [f"--set={key}={value}" for key, value in machine.settings(**settings).items()]
        places = ["--kubelet-root", kubelet.root, "--cdi-dir", kubelet.cdi]
        command = [DRAY, "driver", "gpu", *places, *chosen]
        self.driver = KilledDriver(kubelet.start_driver(command, {"NVML_STAND_IN": str(machine.state)}), rng)

    def upset(self, schedule):
        self.driver.upset(schedule, within=0.3)

    async def life(self, name, devices, configs, check, **members):
        """A pod with these devices, from its start to its end."""
        world = self.world
        self.upset(world.kubelet.faults.next_prepare)
        uid = await world.place(name, *devices, configs=configs, **members)
        await world.kubelet.start_pod(name, within=PATIENCE)
        assert sorted(world.edits(uid)) == sorted(devices)
        check(uid)
        self.upset(world.kubelet.faults.next_unprepare)
        if self.rng.random() < 0.2:
            # The kubelet finds out by itself.
            await world.cluster.delete("Pod", name)
        else:
            await world.kubelet.end_pod(name, within=PATIENCE)
        await world.cluster.delete("ResourceClaim", name)

    async def clean(self):
        return not (self.world.kubelet.prepared_claims or self.world.leftovers())

    async def run(self, lives):
        """`lives` gives what happens at the same time in a cycle."""
        async with self.driver.kept_alive():
            await self.world.kubelet.registered(GPU, within=PATIENCE)
            for number in range(CYCLES):
                await asyncio.gather(*lives(number))
                if not await self._eventually_clean():
                    output = self.driver.process.output
                    raise AssertionError(f"cycle {number}: left are {self.world.leftovers()}\n{output}")
        print(f"{self.driver.kills} kills in {CYCLES} cycles")
        assert self.driver.kills >= CYCLES // 10

    async def _eventually_clean(self):
        with contextlib.suppress(AssertionError):
            return await self.world.kubelet.eventually(self.clean, "nothing is left", PATIENCE)
        return False


@contextlib.asynccontextmanager
async def trial_on(machine, **settings):
    seed = int(os.environ.get("DRAY_DRIVER_SEED", random.randrange(10**6)))
    print(f"DRAY_DRIVER_SEED={seed}")
    (machine.state / "delay").write_text("5")
    async with gpu_world(machine) as world, ApiEndpoint(world.cluster.application) as endpoint:
        world.kubelet.kubeconfig = endpoint.write_kubeconfig(world.kubelet.root / "kubeconfig")
        yield Trial(world, random.Random(seed), **settings)


@pytest.mark.time_limit(max(180, 20 * CYCLES))
async def test_kill_9_leaves_nothing_of_mps_time_slices_and_partitions(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 4)
    async with trial_on(machine, DynamicMIG=True) as trial:

        def has_daemon(uid):
            assert machine.read("compute_mode", 0) == "3"
            directory = trial.world.directory / "mps"
            assert [each.name.rpartition("-")[0] for each in directory.iterdir()] == [uid]
            assert machine.daemons()

        def has_slices(uid):
            assert machine.time_slice(machine.gpus[1].uuid) == 3

        def has_partitions(uid):
            assert sorted(machine.instances(2)) == [(9, 4), (19, 0)]

        parts = ["gpu-2-mig-3g40gb-9-4", "gpu-2-mig-1g10gb-19-0"]
        limits = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "1Gi"}

        def lives(number):
            yield trial.life(f"mps-{number}", ["gpu-0"], [mps(**limits)], has_daemon)
            yield trial.life(f"slices-{number}", ["gpu-1"], [time_slicing("Long")], has_slices)
            yield trial.life(f"parts-{number}", parts, [], has_partitions)
            yield trial.life(f"whole-{number}", ["gpu-3"], [], lambda uid: None)

        await trial.run(lives)


@pytest.mark.time_limit(max(180, 20 * CYCLES))
async def test_kill_9_leaves_nothing_of_shares(gpu_machine):
    machine = gpu_machine("p5.48xlarge", 1)
    async with trial_on(machine, ConsumableShares="memory") as trial:

        def has_slices(uid):
            assert machine.time_slice(machine.gpus[0].uuid) == 2

        def lives(number):
            for share in (1, 2):
                name, given = f"share-{number}-{share}", {"shareID": SHARE.format(share)}
                yield trial.life(name, ["gpu-0"], [time_slicing("Medium")], has_slices, **given)

        await trial.run(lives)
