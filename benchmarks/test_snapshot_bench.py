"""Snapshots: 5,000 nodes with 8 GPUs each, 20,000 pods with claims, from a server to a file and back."""

import asyncio

import pytest

from dray.api.catalogue import find
from dray.client.api import ApiClient
from dray.fleet.choice import choose
from dray.fleet.templates import slices_of
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.snapshot.files import read, write
from dray.snapshot.taking import take
from dray.store.memory import MemoryStore
from dray.testing import objects

NODES = 5000
PODS = 20_000


async def _filled():
    """A server in this process with the objects of the cluster."""
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    client = ApiClient(InProcessTransport(Application(server)))
    for machine in choose([f"a3-highgpu-8g={NODES}"]).machines:
        await client.create(find("v1", "Node"), machine.node())
        for each in slices_of(machine):
            if each["spec"]["driver"] == "gpu.nvidia.com":
                await client.create(find("resource.k8s.io/v1", "ResourceSlice"), each)
    for number in range(PODS):
        claim = objects.claim(f"c-{number}", objects.request(deviceClassName="gpu.nvidia.com"))
        await client.create(find("resource.k8s.io/v1", "ResourceClaim"), claim, namespace="default")
        pod = objects.pod(f"p-{number}", claims=(f"c-{number}",))
        await client.create(find("v1", "Pod"), pod, namespace="default")
    return server, client


@pytest.fixture(scope="module")
def cluster():
    loop = asyncio.new_event_loop()
    server, client = loop.run_until_complete(_filled())
    yield lambda work: loop.run_until_complete(work(client))
    loop.run_until_complete(server.close())
    loop.close()


def test_a_snapshot_of_5000_nodes_is_taken(benchmark, cluster, tmp_path):
    """The promise is 10 s; server and client share one process here."""
    file = tmp_path / "cluster.snapshot"
    size = benchmark.pedantic(lambda: write(cluster(lambda client: take(client, 0.0, "default")), file), rounds=2)
    assert size < 50 * 1024**2
    assert benchmark.stats.stats.min < 10
    assert sum(len(each) for each in read(file).objects.values()) > 2 * NODES + 2 * PODS


def test_a_snapshot_of_5000_nodes_is_read(benchmark, cluster, tmp_path):
    file = tmp_path / "cluster.snapshot"
    write(cluster(lambda client: take(client, 0.0, "default")), file)
    found = benchmark.pedantic(lambda: read(file), rounds=2)
    assert len(found.objects["v1", "Node"]) == NODES
