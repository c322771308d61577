"""kill -9 of `dray up --node`, of its node agent, of a driver, while pods with claims come and go.

DRAY_NODE_KILLS sets how often, DRAY_NODE_SEED the moments, DRAY_NODE_RUNTIME=podman makes containers podman's. After
every kill: no device is held twice, by claims or by containers; every pod ends as it should and ran as often as it
should; and once all pods are gone nothing is left of them, no process, no prepared claim, no CDI file, and every device
can be had again.
"""

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dray.client.api import ApiClient
from dray.client.http import HttpTransport
from dray.client.kubeconfig import Kubeconfig
from dray.node.checkpoint import FILE_NAME, Checkpoint
from dray.testing.cluster import kind_of
from dray.testing.objects import claim_template, device_class, pod, request
from tests.cli.running import Running
from tests.driver.gpu_driver import COUNT, DRIVER, GpuDriver
from tests.node.churn import Churn, processes
from tests.node.runtimes import busybox

RUNTIME = os.environ.get("DRAY_NODE_RUNTIME", "process")
KILLS = int(os.environ.get("DRAY_NODE_KILLS", "3"))
PATIENCE = 60 if RUNTIME == "process" else 150
SOURCE = Path(__file__).parents[2]
TEMPLATES = {
    "gpu": request(deviceClassName="gpu"),
    "gpus": request(deviceClassName="gpu", count=2),
    "cpu": request(deviceClassName="dra.cpu", capacity={"requests": {"dra.cpu/cpu": "1"}}),
}


class Cluster:
    """`dray up --node` and a driver beside it, each a process that is started again when it was killed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.root = folder / "data/node"
        self.hardware = GpuDriver(folder / "hardware")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = open(folder / "log", "w")  # noqa: SIM115  closed in stop
        self.node = socket.gethostname().lower()
        self.up: Running | None = None
        self.driver: asyncio.subprocess.Process | None = None

    async def start(self):
        arguments = ("up", "--port", str(self.port), "--plain", "--node", "--runtime", RUNTIME)
        arguments += ("--data", "data")
        self.up = Running(*arguments, cwd=self.folder, log=self.log)
        async with asyncio.timeout(PATIENCE):
            while not (line := await asyncio.to_thread(self.up.line)).startswith("export "):
                assert line, (self.folder / "log").read_text()

    async def start_driver(self):
        environment = {
            "KUBECONFIG": str(self.folder / "data/kubeconfig"),
            "NODE_NAME": self.node,
            "PYTHONPATH": f"{SOURCE}:{SOURCE / 'src'}",
            "PATH": os.environ["PATH"],
        }
        command = (sys.executable, "-m", "tests.driver.gpu_driver", str(self.root), str(self.hardware.hardware))
        self.driver = await asyncio.create_subprocess_exec(*command, env=environment, stderr=self.log, cwd=self.folder)

    async def kill(self, target):
        """Kills it; returns when it is started again."""
        self.log.write(f"--- kill {target}\n")
        self.log.flush()
        if target == "driver":
            self.driver.kill()
            await self.driver.wait()
            await self.start_driver()
        elif target == "up":
            self.up.process.kill()
            self.up.process.wait()
            self.up.process.stdout.close()
            await self.start()
        elif (agent := self.agent()) is not None:
            # `dray up` starts it again.
            os.kill(agent, signal.SIGKILL)

    def agent(self):
        children = Path(f"/proc/{self.up.process.pid}/task/{self.up.process.pid}/children").read_text().split()
        named = (each for each in children if Path(f"/proc/{each}/comm").read_text() == "dray node\n")
        return next((int(each) for each in named), None)

    async def stop(self):
        if self.driver is not None and self.driver.returncode is None:
            self.driver.kill()
            await self.driver.wait()
        if self.up is not None:
            await asyncio.to_thread(self.up.stop, signal.SIGINT)
            self.up.process.stdout.close()
        self.log.close()
        if containers := self.podman_containers():
            subprocess.run(["podman", "rm", "--force", "--time", "0", "--depend", *containers], capture_output=True)
        for pid in processes(bytes(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # What is left on the machine

    def leftovers(self):
        found = {
            "prepared": [str(each.reference) for each in Checkpoint(self.root / FILE_NAME).load()],
            "hardware": self.hardware.in_use,
            "cdi": [each.name for each in (self.root / "cdi").iterdir()],
            "pods": [each.name for each in (self.root / "pods").iterdir()],
            "logs": [each.name for each in (self.root / "logs").glob("default_*")],
            "containers": [*self.podman_containers(), *(each.name for each in self.root.glob("*/containers/*"))],
            "processes": processes(bytes(self.folder / "work")) | processes(bytes(self.root / "run")),
        }
        return {name: each for name, each in found.items() if each}

    def podman_containers(self):
        if RUNTIME != "podman":
            return []
        command = ["podman", "ps", "--all", "--quiet", "--filter", f"label=io.dray.root={self.root / 'podman'}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    async def clean(self):
        left = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while left := self.leftovers():
                    await asyncio.sleep(0.2)
                return
        raise AssertionError(f"left: {left}; log in {self.folder}/log")


async def all_devices_at_once(churn: Churn):
    """A pod that needs every GPU runs."""
    made = pod("all", templates=["all"], restartPolicy="Never")
    made["spec"]["containers"][0]["command"] = ["true"]
    churn.contain(made)
    await churn.client.create(kind_of("Pod"), made, namespace="default")
    async with asyncio.timeout(PATIENCE):
        while (await churn.pods())["all"]["status"].get("phase") != "Succeeded":
            await asyncio.sleep(0.1)
    await churn.delete("all")
    await churn.empty(PATIENCE)


async def watch_allocations(churn: Churn, found: list):
    """Notes devices that two claims have at one time."""
    while True:
        claims = await churn.surely(lambda: churn.client.list(kind_of("ResourceClaim"), namespace="default"), "")
        holders: dict = {}
        for each in claims["items"]:
            for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                if result["driver"] == DRIVER:
                    holders.setdefault(result["device"], []).append(each["metadata"]["name"])
        found += [(device, names) for device, names in holders.items() if len(names) > 1]
        await asyncio.sleep(0.3)


@pytest.fixture
def short_path():
    """The paths of sockets have 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="dray-kill-", ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.mark.time_limit(60 + PATIENCE * KILLS)
async def test_kill_9_leaves_no_device_held_twice_or_lost_and_no_orphan(short_path):
    seed = int(os.environ.get("DRAY_NODE_SEED", random.randrange(10**6)))
    print(f"DRAY_NODE_SEED={seed}")
    rng = random.Random(seed)
    cluster = Cluster(short_path)
    try:
        await cluster.start()
        await cluster.start_driver()
        endpoint = Kubeconfig.load([short_path / "data/kubeconfig"]).endpoint()
        async with ApiClient(HttpTransport(endpoint)) as client:
            await client.create(kind_of("DeviceClass"), device_class("gpu", f'device.driver == "{DRIVER}"'))
            wanted = {**TEMPLATES, "all": request(deviceClassName="gpu", count=COUNT)}
            for name, each in wanted.items():
                template = claim_template(name, each)
                await client.create(kind_of("ResourceClaimTemplate"), template, namespace="default")
            image = busybox.image() if RUNTIME == "podman" else ""
            churn = Churn(client, short_path / "work", rng, list(TEMPLATES), cluster.node, image=image)
            targets = [each for _ in range(KILLS // 3 + 1) for each in rng.sample(["up", "agent", "driver"], 3)]
            for target in targets[:KILLS]:
                await one_round(cluster, churn, target, rng)
    except BaseException:
        print((short_path / "log").read_text()[-4000:])
        raise
    finally:
        await cluster.stop()


async def one_round(cluster, churn, target, rng):
    twice: list = []
    working, watching = asyncio.create_task(churn.run()), asyncio.create_task(watch_allocations(churn, twice))
    try:
        await asyncio.sleep(rng.uniform(0.3, 1.5))
        await cluster.kill(target)
        await asyncio.sleep(rng.uniform(0.1, 0.6))
        churn.stopped = True
        await working
        await churn.drain(PATIENCE)
        await churn.empty(PATIENCE)
        await all_devices_at_once(churn)
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
    assert not twice
    assert not (churn.place / "twice").exists(), (churn.place / "twice").read_text()
    await cluster.clean()
    assert not [line for line in cluster.hardware.asked if "twice" in line]
