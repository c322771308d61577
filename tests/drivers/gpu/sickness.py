"""Claims of every kind on GPUs that fail: what is configured, and what must hold while and after the GPU is sick."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

from dray.process.tasks import end_tasks

from .world import gpu_world, mps, time_slicing

QUICK = {"checkSeconds": 0.05, "discoverySeconds": 0.05, "nvmlSeconds": 5}
"""Settings with which a test need not wait for the next check."""
PATIENCE = 60
PARTITION = "gpu-0-mig-3g40gb-9-4"
CLAIMS = {
    "plain": ("gpu-0", []),
    "time-slices": ("gpu-0", [time_slicing("Long")]),
    "mps": ("gpu-0", [mps()]),
    "partition": (PARTITION, []),
    "existing-partition": (PARTITION, []),
}
"""The device and the configuration of each kind of claim."""


def taints_of(device):
    return {
        (taint["key"].partition("/")[2], taint.get("value", ""), taint["effect"]) for taint in device.get("taints", ())
    }


def tracebacks(caplog):
    return [record for record in caplog.records if record.exc_info and record.name.startswith("dray")]


class SickWorld:
    """A machine whose GPUs become sick, with the driver on it."""

    def __init__(self, world, device, configs):
        self.world = world
        self.machine = world.machine
        self.device = device
        self.configs = configs
        self.at_rest = []
        """What the machine has without any claim."""

    async def start(self, name):
        return await self.world.start(name, self.device, configs=self.configs)

    async def start_patiently(self, name):
        """Tries until the device is there."""
        await self.world.place(name, self.device, configs=self.configs)
        await self.world.kubelet.start_pod(name, within=PATIENCE)

    async def end_all(self):
        for pod in await self.world.cluster.list("Pod"):
            with contextlib.suppress(AssertionError):
                await self.end(pod["metadata"]["name"])

    async def end(self, name, within=PATIENCE):
        await self.world.kubelet.end_pod(name, within=within)

    async def taints(self, device=None):
        """Returns the taints of the device; None if the device is not published."""
        found = (await self.world.devices()).get(device or self.device)
        return None if found is None else taints_of(found)

    @asynccontextmanager
    async def watched(self):
        """Gives an event that is set once the device has a taint or is withdrawn."""
        seen = asyncio.Event()

        async def watch():
            while True:
                taints = await self.taints()
                if taints is None or taints:
                    seen.set()
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        try:
            yield seen
        finally:
            await end_tasks([watching])

    async def until_tainted(self, what, *wanted, device=None, within=PATIENCE):
        async def holds():
            taints = await self.taints(device)
            return taints is None or (taints >= set(wanted) if wanted else taints)

        await self.world.kubelet.eventually(holds, f"{what}: {device or self.device} has taints {wanted or ''}", within)

    def left(self):
        return [each for each in self.world.leftovers() if each not in self.at_rest]

    async def until_well(self, what, within=PATIENCE):
        """No device has a taint, all are there, and nothing of any claim is left."""

        async def holds():
            devices = await self.world.devices()
            return self.device in devices and not any(map(taints_of, devices.values())) and self.left() == []

        try:
            await self.world.kubelet.eventually(holds, f"{what}: the machine is well", within)
        except AssertionError as error:
            taints = {
                name: taints_of(device) for name, device in (await self.world.devices()).items() if taints_of(device)
            }
            raise AssertionError(f"{error}\ntaints {taints}, left {self.left()}") from None


@asynccontextmanager
async def sick_world(gpu_machine, kind, count=1, **settings):
    device, configs = CLAIMS[kind]
    is_cut = kind == "existing-partition"
    machine = gpu_machine("p5.48xlarge", count, mig=(0,) if is_cut else ())
    if is_cut:
        machine.put_instance(0, 7, profile=9, start=4, size=4)
    async with gpu_world(machine) as world:
        at_rest = world.leftovers()
        chosen = {**QUICK, "DynamicMIG": kind == "partition", **settings}
        async with world.driver(**chosen):
            trial = SickWorld(world, device, configs)
            trial.at_rest = at_rest
            yield trial
