"""Recording a cluster: pods that came and went in the meantime are in the file, with how long they ran."""

import asyncio

import pytest

from dray.api.objects import key_of, status_of
from dray.client.api import ApiClient
from dray.client.interface import DeleteOptions
from dray.replay.recordings import run_seconds
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.snapshot.files import read, write
from dray.snapshot.recording import Recorder, ended, record
from dray.store.memory import MemoryStore
from dray.testing import objects
from dray.testing.cluster import kind_of


@pytest.fixture
async def client():
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    yield ApiClient(InProcessTransport(Application(server)))
    await server.close()


async def until(question):
    async with asyncio.timeout(60):
        while not question():
            await asyncio.sleep(0.01)


async def test_pods_that_end_while_a_cluster_is_recorded_are_in_the_file(client, tmp_path):
    await client.create(kind_of("Node"), objects.node("a"))
    await client.create(kind_of("Pod"), objects.pod("before"), namespace="default")
    recorder, stop = Recorder(lambda: 100.0), asyncio.Event()
    recording = asyncio.create_task(record(client, "default", recorder, None, stop))
    await until(lambda: len(recorder.seen["Pod"]) == 1)
    await client.create(kind_of("Pod"), objects.pod("during", nodeName="a"), namespace="default")
    await until(lambda: len(recorder.seen["Pod"]) == 2)
    await client.delete(kind_of("Pod"), "during", namespace="default", options=DeleteOptions(grace_period=0))
    await until(lambda: any(status_of(pod).get("phase") == "Succeeded" for pod in recorder.seen["Pod"].values()))
    stop.set()
    taken = await recording
    assert {key_of(pod)[1] for pod in taken.objects["v1", "Pod"]} == {"before", "during"}
    write(taken, tmp_path / "recording")
    assert len(read(tmp_path / "recording").objects["v1", "Pod"]) == 2


async def test_a_recording_that_stops_before_the_watches_start_has_the_pods_of_the_snapshot(client):
    await client.create(kind_of("Pod"), objects.pod("before"), namespace="default")
    stop = asyncio.Event()
    stop.set()
    taken = await record(client, "default", Recorder(lambda: 100.0), None, stop)
    assert [key_of(pod) for pod in taken.objects["v1", "Pod"]] == [("default", "before")]


def test_a_deleted_pod_ran_until_it_was_gone():
    pod = objects.pod("p", nodeName="a")
    pod["status"] = {"phase": "Running", "startTime": "1970-01-01T00:00:40Z"}
    assert run_seconds(ended(pod, 100.0)) == 60
    waiting = objects.pod("w")
    assert ended(waiting, 100.0) is waiting
