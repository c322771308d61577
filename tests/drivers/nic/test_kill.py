"""kill -9 of the driver, and of the agent's side of it, while pods with interfaces come and go.

DRAY_DRIVER_CYCLES sets how often. With either runtime, after every cycle all interfaces are on the host as they were,
and nothing is left.
"""

import asyncio
import contextlib
import os
import random
import sys
from pathlib import Path

import pytest

from dray.node.runtimes.configs import SandboxConfig
from dray.node.runtimes.interface import StartError
from dray.node.runtimes.podman.runtime import PodmanRuntime
from dray.node.runtimes.process import ProcessRuntime
from dray.testing.api_endpoint import ApiEndpoint
from dray.testing.objects import request
from tests.driver.killed import KilledDriver
from tests.drivers.nic.networks import interfaces, make_interface, seen
from tests.drivers.nic.trees import SysfsTree
from tests.node.clusters import NODE, bound_pod, kubelet_on_cluster
from tests.node.runtimes import busybox

CYCLES = int(os.environ.get("DRAY_DRIVER_CYCLES", "1"))
PATIENCE = 60
NAMES = ("nic0", "nic1", "nic2")
RUNTIMES = {"process": ProcessRuntime, "podman": PodmanRuntime}


@pytest.fixture(params=["process", pytest.param("podman", marks=busybox.needs_podman)])
def runtime(request):
    if request.param == "podman":
        # Skips where podman runs no containers.
        busybox.image()
    return request.param


class Trial:
    def __init__(self, cluster, kubelet, directory, rng, runtime):
        self.cluster = cluster
        self.kubelet = kubelet
        self.rng = rng
        self.state = directory / "state"
        self.runtime = RUNTIMES[runtime](directory / "run", cdi_directories=[kubelet.cdi], ends_with=os.getpid())
        SysfsTree(directory / "sys")
        settings = (
            "excludeTypes=",
            "excludeInterfaces=*p,podman*",
            f"sysfsRoot={directory}/sys",
            f"stateDirectory={self.state}",
        )
        command = [Path(sys.executable).with_name("dray"), "driver", "nic", "--kubelet-root", kubelet.root]
        command += ["--cdi-dir", kubelet.cdi, *(part for each in settings for part in ("--set", each))]
        self.driver = KilledDriver(kubelet.start_driver(command), rng)

    def upset(self, schedule):
        self.driver.upset(schedule, within=0.1)

    async def pod(self, name, device):
        results = [{"request": "nic", "driver": "dra.net", "pool": NODE, "device": device}]
        made = await bound_pod(self.cluster, name, (name, results, request("nic")))
        return made["metadata"]["uid"]

    async def sandbox(self, uid, ids):
        config = SandboxConfig(pod_uid=uid, namespace="default", name="p", cdi_devices=tuple(ids))
        return await self.runtime.create_sandbox(config)

    async def life(self, name, device):
        """A pod with this interface from its start to its end; the hook, too, may be killed in the midst of it."""
        uid = await self.pod(name, device)
        self.upset(self.kubelet.faults.next_prepare)
        started = await self.kubelet.start_pod(name, within=PATIENCE)
        ids = started.cdi_ids["main"]
        hooking = asyncio.create_task(self.sandbox(uid, ids))
        if self.rng.random() < 0.4:
            # The agent is killed, and what it was about to do is not done.
            await asyncio.sleep(self.rng.uniform(0, 0.4))
            hooking.cancel()
            with contextlib.suppress(asyncio.CancelledError, StartError):
                await hooking
        else:
            sandbox = await hooking
            assert sandbox.network_namespace
            assert device not in interfaces()
        if self.rng.random() < 0.3:
            self.driver.kill()
        self.upset(self.kubelet.faults.next_unprepare)
        if self.rng.random() < 0.5:
            # The network of the pod vanishes before its claims are unprepared.
            await self.runtime.stop_sandbox(uid)
        await self.kubelet.end_pod(name, within=PATIENCE)
        await self.runtime.remove_sandbox(uid)
        await self.cluster.delete("ResourceClaim", name)

    def left(self):
        files = [each.name for each in self.kubelet.cdi.iterdir()]
        held = [each.name for each in (self.state / "netns").glob("*")]
        records = [each.name for each in self.state.glob("*.json")]
        return {"cdi": files, "namespaces": held, "attachments": records}


@contextlib.asynccontextmanager
async def trial(directory, rng, runtime):
    async with kubelet_on_cluster() as (cluster, kubelet), ApiEndpoint(cluster.application) as endpoint:
        kubelet.kubeconfig = endpoint.write_kubeconfig(kubelet.root / "kubeconfig")
        made = Trial(cluster, kubelet, directory, rng, runtime)
        await kubelet.registered("dra.net", within=PATIENCE)
        yield made


@pytest.mark.time_limit(max(120, 20 * CYCLES))
async def test_kill_9_leaves_no_interface_behind_and_none_missing(host_network, tmp_path, runtime):
    seed = int(os.environ.get("DRAY_DRIVER_SEED", random.randrange(10**6)))
    print(f"DRAY_DRIVER_SEED={seed}")
    rng = random.Random(seed)
    before = {name: make_interface(name, number=number) for number, name in enumerate(NAMES)}
    async with trial(tmp_path, rng, runtime) as here:
        try:
            async with here.driver.kept_alive():
                for cycle in range(CYCLES):
                    chosen = rng.sample(NAMES, rng.randint(1, len(NAMES)))
                    await asyncio.gather(*(here.life(f"p{cycle}-{name}", name) for name in chosen))
                    assert {name: seen(name) for name in NAMES} == before
                    assert here.left() == {"cdi": [], "namespaces": [], "attachments": []}
        except BaseException:
            said = here.driver.process.log.read_text()[-6000:]
            print(f"after {cycle} cycles, {here.driver.kills} kills; {here.left()}\n{said}")
            raise
        print(f"{here.driver.kills} kills in {CYCLES} cycles")


async def test_the_guard_brings_it_back_when_driver_and_pod_are_gone(host_network, tmp_path, runtime):
    before = make_interface("nic0")
    async with trial(tmp_path, random.Random(1), runtime) as here:
        uid = await here.pod("p", "nic0")
        started = await here.kubelet.start_pod("p", within=PATIENCE)
        await here.sandbox(uid, started.cdi_ids["main"])
        here.driver.kill()
        await asyncio.sleep(1.5)
        # While the network of the pod is there, the interface is the pod's.
        assert "nic0" not in interfaces()
        await here.runtime.stop_sandbox(uid)

        async def back():
            return seen("nic0") == before

        await here.kubelet.eventually(back, "the interface is back", PATIENCE)
        # Another driver finds everything in order, and the kubelet ends the claim in its time.
        here.driver.process.start()
        await here.kubelet.end_pod("p", within=PATIENCE)
        assert seen("nic0") == before
        assert here.left()["cdi"] == []
