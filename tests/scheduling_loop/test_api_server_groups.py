"""Groups over HTTP: on our server and on Kubernetes' own, where `scheduling.x-k8s.io` is what somebody installed."""

import contextlib

import pytest

from dray.client.errors import AlreadyExists, ApiError
from dray.client.foreign_kinds import COSCHEDULING, OWN, definitions
from dray.client.interface import DeleteOptions
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.scheduling_loop.api_servers import DrayServer, KubernetesServer
from tests.scheduling_loop.test_api_servers import running
from tests.scheduling_loop.test_coscheduling import group, in_group

pytestmark = pytest.mark.time_limit(180)
RACK = "example.com/rack"


@pytest.fixture(params=[DrayServer, KubernetesServer], ids=lambda server: server.name, scope="module")
def server(request, tmp_path_factory):
    if request.param is KubernetesServer and (missing := KubernetesServer.missing()):
        pytest.skip(missing)
    started = request.param(tmp_path_factory.mktemp("server"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


def machines():
    """Two racks of two machines with two GPUs each."""
    for number in range(4):
        yield objects.node(f"n{number}", labels={RACK: f"r{number // 2}"})
        yield gpus.slice_of(f"n{number}", 2)
    yield gpus.device_class("gpu")
    yield objects.claim_template("one")


def installed():
    """As somebody else would install it: without the mark of those that dray serves."""
    definition = next(each for each in definitions() if each["metadata"]["name"] == COSCHEDULING.qualified)
    annotations = {key: value for key, value in definition["metadata"]["annotations"].items() if key != OWN}
    return {**definition, "metadata": {**definition["metadata"], "annotations": annotations}}


async def install(server):
    async with server.serving() as (for_test, _), for_test() as client:
        definition = kind_of("CustomResourceDefinition", "apiextensions.k8s.io/v1")
        with contextlib.suppress(AlreadyExists):
            await client.create(definition, installed())

    return server


async def placed(cluster, number):
    found = await cluster.bound()
    return found if len(found) == number else None


async def told(cluster, kind):
    events = await cluster.list("Event")
    return [each for each in events if each["reason"] == "FailedScheduling" and each["involvedObject"]["kind"] == kind]


def condition(found):
    conditions = (found.get("status") or {}).get("conditions") or ()
    return [(each["type"], each["status"]) for each in conditions]


async def remove(cluster, kind, name):
    """With the pods of the group, since a PodGroup stays as long as it has some."""
    for each in await cluster.list("Pod"):
        await cluster.delete("Pod", each["metadata"]["name"])
    with contextlib.suppress(ApiError):
        await cluster.client.delete(kind, name, namespace="default", options=DeleteOptions(grace_period=0))


async def test_a_native_gang_in_one_rack(server):
    async with running(server) as cluster:
        await cluster.make(*machines())
        topology = {"topology": [{"key": RACK}]}
        await cluster.make(objects.pod_group("g", minCount=4, schedulingConstraints=topology))
        for number in range(3):
            await cluster.make(gpus.pod(f"w{number}", templates=["one"], schedulingGroup={"podGroupName": "g"}))
        # One of another sort is placed meanwhile.
        await cluster.make(gpus.pod("other", templates=["one"]))
        await cluster.until(lambda: placed(cluster, 1))
        await cluster.make(gpus.pod("w3", templates=["one"], schedulingGroup={"podGroupName": "g"}))
        found = await cluster.until(lambda: placed(cluster, 5))
        racks = {int(node[1:]) // 2 for name, node in found.items() if name != "other"}
        assert racks == {1 - int(found["other"][1:]) // 2}

        async def is_said():
            (made,) = await cluster.list("PodGroup")
            return condition(made) == [("PodGroupInitiallyScheduled", "True")]

        await cluster.until(is_said)
        await remove(cluster, kind_of("PodGroup"), "g")


async def test_a_native_gang_that_is_too_large_says_so(server):
    async with running(server) as cluster:
        await cluster.make(*machines())
        await cluster.make(objects.pod_group("g", minCount=9))
        for number in range(9):
            await cluster.make(gpus.pod(f"w{number}", templates=["one"], schedulingGroup={"podGroupName": "g"}))
        (event,) = await cluster.until(lambda: told(cluster, "PodGroup"))
        assert "9 pods have to be placed together, but only 8 fit" in event["message"]
        assert not await cluster.bound()
        assert not any(gpus.held(each) for each in await cluster.list("ResourceClaim"))
        await remove(cluster, kind_of("PodGroup"), "g")


async def test_a_gang_by_label_whose_kind_somebody_else_installed(server):
    async with running(await install(server)) as cluster:
        await cluster.make(*machines())
        await cluster.client.create(COSCHEDULING, group("mpi", 8, scheduleTimeoutSeconds=30))
        for number in range(8):
            await cluster.make(in_group(gpus.pod(f"w{number}", templates=["one"]), "mpi"))
        await cluster.until(lambda: placed(cluster, 8))
        made = await cluster.client.get(COSCHEDULING, "mpi", namespace="default")
        # Its status is that of whoever installed it.
        assert not made.get("status")
        await remove(cluster, COSCHEDULING, "mpi")
