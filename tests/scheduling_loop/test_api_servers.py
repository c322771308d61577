"""The same cluster in several ways: everything in one process, over HTTP to our server, also on a bad day of it, and to
Kubernetes' own."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from dray.client.errors import ApiError, ClientError
from dray.client.interface import DeleteOptions
from dray.control_plane.control_plane import ControlPlane, PlaneOptions
from dray.controllers.registry import CONTROLLERS
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import kind_of
from dray.testing.conformance.cluster import QUIET, Play
from dray.testing.conformance.corpus import read
from dray.testing.conformance.servers import OverHttp
from tests import gpus
from tests.scheduling_loop.api_servers import DrayServer, InProcessServer, KubernetesServer
from tests.scheduling_loop.checker import Checker
from tests.scheduling_loop.creation import make
from tests.scheduling_loop.faulty_server import FaultyServer

STORIES = Path(__file__).parent.parent / "conformance" / "cluster.jsonl.gz"
GPU = gpus.GPU
# Namespaces and jobs are not needed, and service accounts are off.
CONTROLLED = tuple(name for name in CONTROLLERS if name not in ("namespace", "serviceaccount"))

pytestmark = pytest.mark.time_limit(180)


@pytest.fixture(
    params=[InProcessServer, DrayServer, FaultyServer, KubernetesServer], ids=lambda server: server.name, scope="module"
)
def server(request, tmp_path_factory):
    if request.param is KubernetesServer and (missing := KubernetesServer.missing()):
        pytest.skip(missing)
    started = request.param() if request.param is InProcessServer else request.param(tmp_path_factory.mktemp("server"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def process(server):
    if isinstance(server, InProcessServer):
        pytest.skip("there is no process of its own")
    return server


class Cluster:
    def __init__(self, client):
        self.client = client
        self.checker = Checker()

    async def make(self, *documents):
        for each in documents:
            await make(self.client, each)
            if each["kind"] == "ResourceSlice":
                self.checker.publish(each)

    async def list(self, kind):
        return (await self.client.list_all(kind_of(kind)))["items"]

    async def bound(self):
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in await self.list("Pod")
            if each["spec"].get("nodeName")
        }

    async def delete(self, kind, name):
        kind = kind_of(kind)
        namespace = "default" if kind.namespaced else ""
        await self.client.delete(kind, name, namespace=namespace, options=DeleteOptions(grace_period=0))

    async def until(self, holds, within=60.0):
        end = asyncio.get_running_loop().time() + within
        while not (found := await self._asked(holds)):
            assert asyncio.get_running_loop().time() < end, await self._asked(self.list, "Pod")
            await asyncio.sleep(0.05)
        return found

    async def _asked(self, question, *args):
        """The server may be away for a while."""
        with contextlib.suppress(ClientError):
            return await question(*args)

    async def clear(self):
        for kind in ("Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "Node"):
            for each in await self.list(kind):
                with contextlib.suppress(ApiError):
                    await self.delete(kind, each["metadata"]["name"])
        await self.until(self._empty)

    async def _empty(self):
        return not await self.list("Pod") and not await self.list("ResourceClaim")


@contextlib.asynccontextmanager
async def running(server):
    """A control plane on one connection, and the test on another."""
    async with server.serving() as (for_test, for_plane), for_test() as own, for_plane() as theirs:
        cluster = Cluster(own)
        plane = ControlPlane(theirs, PlaneOptions(Options(), CONTROLLED))
        tasks = [asyncio.create_task(plane.run()), asyncio.create_task(cluster.checker.watch(own))]
        try:
            await _ready(plane, tasks[0])
            yield cluster
            await cluster.clear()
            assert cluster.checker.events
            assert not cluster.checker.problems
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
    if isinstance(server, KubernetesServer):
        # Over TLS it takes connections a moment to close.
        await asyncio.sleep(0.25)


async def _ready(plane, running):
    ready = asyncio.create_task(plane.ready.wait())
    try:
        await asyncio.wait([ready, running], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ready.cancel()
    assert plane.ready.is_set(), running


@pytest.fixture
async def cluster(server):
    async with running(server) as cluster:
        yield cluster


def machines(count=2, gpu_count=4):
    for number in range(count):
        yield objects.node(f"n{number}")
        yield gpus.slice_of(f"n{number}", gpu_count)
    yield gpus.device_class("gpu")
    yield objects.claim_template("t")


async def test_devices_are_given_away_and_come_back(cluster):
    await cluster.make(*machines())
    for number in range(9):
        await cluster.make(gpus.pod(f"p{number}", templates=["t"]))
    await cluster.until(lambda: _bound(cluster, 8))
    (waiting,) = {f"p{n}" for n in range(9)} - (await cluster.bound()).keys()
    gone = next(iter(await cluster.bound()))
    await cluster.delete("Pod", gone)
    await cluster.until(lambda: _bound(cluster, 8))
    assert waiting in await cluster.bound()


async def _bound(cluster, count):
    return len(await cluster.bound()) == count


async def test_a_claim_is_shared(cluster):
    await cluster.make(*machines(), objects.claim("c"))
    for number in range(3):
        await cluster.make(gpus.pod(f"p{number}", claims=["c"]))
    await cluster.until(lambda: _bound(cluster, 3))
    assert len(set((await cluster.bound()).values())) == 1
    (claim,) = await cluster.list("ResourceClaim")
    assert len(claim["status"]["reservedFor"]) == 3
    for number in range(3):
        await cluster.delete("Pod", f"p{number}")
    await cluster.until(lambda: _released(cluster))


async def _released(cluster):
    return not any(gpus.held(each) for each in await cluster.list("ResourceClaim"))


async def test_an_extended_resource_is_served_by_devices(cluster):
    await cluster.make(*machines())
    await cluster.make(gpus.pod("p", requests={GPU: "4"}, limits={GPU: "4"}))
    await cluster.until(lambda: _bound(cluster, 1))
    (claim,) = await cluster.list("ResourceClaim")
    assert len(gpus.held(claim)) == 4


async def test_an_important_pod_gets_the_device_of_another(cluster):
    await cluster.make(*machines(1, 1))
    with contextlib.suppress(ApiError):
        await cluster.make(objects.priority_class("high", 100))
    await cluster.make(gpus.pod("low", templates=["t"]))
    await cluster.until(lambda: _bound(cluster, 1))
    await cluster.make(gpus.pod("high", templates=["t"], priorityClassName="high"))
    await cluster.until(lambda: _has(cluster, "high"))
    assert "low" not in {each["metadata"]["name"] for each in await cluster.list("Pod")}


async def _has(cluster, name):
    return name in await cluster.bound()


@pytest.mark.time_limit(240)
async def test_a_server_that_is_killed_meanwhile(process):
    async with running(process) as cluster:
        await cluster.make(*machines(4, 15))
        for number in range(24):
            await cluster.make(gpus.pod(f"p{number}", templates=["t"]))
            if number == 12:
                restarting = asyncio.create_task(asyncio.to_thread(process.restart))
                await asyncio.sleep(0.05)
                await restarting
        await cluster.until(lambda: _bound(cluster, 24), within=120)
        claims = await cluster.list("ResourceClaim")
        held = [(each["pool"], each["device"]) for claim in claims for each in gpus.results(claim)]
        assert len(held) == len(set(held)) == 24


class Patient(Play):
    """Nothing may happen for long on a server that is slow, and it is not as it should yet."""

    def _settled(self, expected):
        end = time.monotonic() + 60
        while (found := super()._settled(expected)) != expected and time.monotonic() < end:
            pass
        # The scheduler may not have heard of what was done last: its watch may have been cut off.
        time.sleep(1)
        return found


TOLD = ("no device left", "two on one root", "two claims in one pod", "unschedulable node")


@pytest.mark.parametrize("name", TOLD)
async def test_stories(process, name, monkeypatch):
    # Straight there, whatever proxies the machine is set up with.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (story,) = [each for each in read(STORIES) if each["name"] == name]
    async with running(process):
        teller = Play if type(process) is DrayServer else Patient
        play = teller(OverHttp(process.url, process.token), "default-scheduler", QUIET / 4)
        outcome = await asyncio.to_thread(play.run, story)
    assert not outcome.difference, outcome
