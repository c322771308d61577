"""The walk-throughs of docs/walkthroughs.md on the fleet that they name, with the manifests of any cluster."""

import asyncio
import importlib.util
from collections import Counter

import pytest

from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner

from .rehearsed import EXAMPLES, rehearsing

FOLDER = "walkthroughs"
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"


async def time_slicing(here):
    await here.apply(f"{FOLDER}/1-time-slicing/time-slicing.yaml")
    await shared(here, "chat", "summary")


async def mps(here):
    await here.apply(f"{FOLDER}/2-mps/mps.yaml")
    await shared(here, "rank", "embed")


async def shared(here, *names):
    """Pods of both Deployments have one GPU."""
    pods = [pod for name in names for pod in await here.running(1, app=name)]
    (gpus, others) = [(await here.devices(pod))["gpu"] for pod in pods]
    assert gpus == others
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 1


async def mig(here):
    await here.apply(f"{FOLDER}/3-mig/mig.yaml")
    pods = [*await here.running(1, app="large"), *await here.running(2, app="small")]
    held = [device for pod in pods for device in (await here.devices(pod))["partition"]]
    assert sorted(each["attributes"]["profile"]["string"] for each in held) == ["1g.10gb", "1g.10gb", "3g.40gb"]
    assert len({each["attributes"]["parentUUID"]["string"] for each in held}) == 1
    assert len({each["name"] for each in held}) == 3


async def alignment(here):
    await here.apply(f"{FOLDER}/4-alignment/alignment.yaml")
    for name, together in (("side-by-side", True), ("apart", False)):
        [pod] = await here.running(1, app=name)
        held = await here.devices(pod)
        (gpu,), (nic,), (cpus,) = held["gpu"], held["nic"], held["cpu"]
        assert (gpu["attributes"][ROOT] == nic["attributes"][ROOT]) is together
        assert nic["attributes"][NUMA] == cpus["attributes"][NUMA]


async def tpu(here):
    await here.apply(f"{FOLDER}/5-tpu/tpu.yaml")
    [pod] = await here.running(1, app="one-chip")
    assert len((await here.devices(pod))["tpu"]) == 1
    taken = Counter()
    for pod in await here.running(2, app="any-generation"):
        for request, devices in (await here.devices(pod)).items():
            taken[request] += len(devices)
    assert taken == {"tpu/v6e": 4, "tpu/v5p": 4}


async def gpu_fungibility(here):
    for file in ("compute-class-definition", "compute-class", "fungible"):
        await here.apply(f"{FOLDER}/6-gpu-fungibility/{file}.yaml")
    taken = Counter()
    for pod in await here.running(3, app="llm"):
        for request, devices in (await here.devices(pod)).items():
            taken[request] += len(devices)
    assert taken == {"gpu/one-80": 2, "gpu/two-40": 2}


async def gpu_or_cpu(here):
    await here.apply(f"{FOLDER}/7-gpu-or-cpu/classes.yaml")
    async with DriverRunner(image_configurator(), here.cluster.client, RunnerOptions()):
        await here.apply(f"{FOLDER}/7-gpu-or-cpu/gpu-or-cpu.yaml")
        images = {}
        for pod in await here.running(2, app="server"):
            (request,) = [name for name in await here.devices(pod) if name.startswith("device/")]
            images[request] = pod["spec"]["containers"][0]["image"]
    assert images == {"device/gpu": "example.com/server:gpu", "device/cpu": "example.com/server:cpu"}


def image_configurator():
    path = EXAMPLES / "drivers" / "image_configurator.py"
    spec = importlib.util.spec_from_file_location("image_configurator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ImageConfigurator()


@pytest.mark.time_limit(120)
async def test_every_walk_through(tmp_path):
    """On one cluster, all at once: none of them is in the way of another."""
    walks = (time_slicing, mps, mig, alignment, tpu, gpu_fungibility, gpu_or_cpu)
    async with rehearsing(tmp_path, EXAMPLES / FOLDER / "machines.yaml") as here, asyncio.TaskGroup() as group:
        for walk in walks:
            group.create_task(walk(here), name=walk.__name__)
