"""Claims that the scheduler makes itself, for extended resources."""

import asyncio
import contextlib

import pytest

from dray.client.interface import DeleteOptions
from dray.testing import objects
from dray.testing.cluster import kind_of
from tests import gpus
from tests.gpus import GPU
from tests.scheduling_loop.cluster import VirtualCluster
from tests.scheduling_loop.readers import claim_of, condition


async def test_a_claim_is_made_for_extended_resources(virtual_cluster):
    await virtual_cluster.create(gpus.pod("p", requests={GPU: "2"}, limits={GPU: "2"}))
    await virtual_cluster.quiet()
    pod = await virtual_cluster.get("Pod", "p")
    claim = await claim_of(virtual_cluster, "p")
    assert pod["spec"]["nodeName"]
    assert len(gpus.held(claim)) == 2
    status = pod["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]
    assert [each["resourceName"] for each in status["requestMappings"]] == [GPU]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]


async def test_a_pod_with_both_kinds_of_claims_names_the_right_one(virtual_cluster):
    """Claims are written at the same time, and end in any order."""
    virtual_cluster.transports["scheduler"].slowest = 0.5
    await virtual_cluster.create(objects.claim_template("t"))
    for number in range(4):
        await virtual_cluster.create(gpus.pod(f"p{number}", templates=["t"], requests={GPU: "1"}, limits={GPU: "1"}))
    await virtual_cluster.quiet(60)
    assert len(await virtual_cluster.bound()) == 4
    for number in range(4):
        pod = await virtual_cluster.get("Pod", f"p{number}")
        special = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        claim = await virtual_cluster.get("ResourceClaim", special)
        assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"


@pytest.mark.parametrize(
    ("method", "path", "fate"),
    [
        ("POST", "/resourceclaims", "after"),
        ("POST", "/resourceclaims", 500),
        ("PATCH", "/p/status", "after"),
        ("PATCH", "/p/status", 500),
        ("POST", "/binding", 409),
    ],
)
async def test_a_special_claim_that_came_to_nothing_is_cleared_away(virtual_cluster, method, path, fate):
    virtual_cluster.transports["scheduler"].plan(method, path, fate)
    await virtual_cluster.create(gpus.pod("p", requests={GPU: "4"}, limits={GPU: "4"}))
    await virtual_cluster.quiet(60)
    assert virtual_cluster.transports["scheduler"].faults == 1
    assert await virtual_cluster.node_of("p")
    with_devices = [each for each in await virtual_cluster.claims() if gpus.held(each)]
    assert len(with_devices) == 1
    await virtual_cluster.create(gpus.pod("q", requests={GPU: "4"}, limits={GPU: "4"}))
    await virtual_cluster.quiet(60)
    assert await virtual_cluster.node_of("q")


class Forgotten:
    """The answer to a watch from where the server no longer remembers."""

    status, headers = 410, {}

    async def __aiter__(self):
        yield b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}'

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def seeing_claims_only_in_lists(**options):
    async with VirtualCluster(**options) as virtual_cluster:
        virtual_cluster.schedule()
        transport = virtual_cluster.transports["scheduler"]
        stream = transport.stream

        async def forgetful(request):
            return Forgotten() if request.path.endswith("/resourceclaims") else await stream(request)

        transport.stream = forgetful
        await asyncio.sleep(60)
        yield virtual_cluster, transport


async def test_a_special_claim_that_came_and_went_between_two_lists_is_forgotten(virtual_time):
    async with seeing_claims_only_in_lists() as (virtual_cluster, transport):
        transport.plan("POST", "/binding", 409)
        await virtual_cluster.create(gpus.pod("p", requests={GPU: "4"}, limits={GPU: "4"}))
        await virtual_cluster.quiet(200)
        assert transport.faults == 1
        assert await virtual_cluster.node_of("p")
        assert len(gpus.held(await claim_of(virtual_cluster, "p"))) == 4


async def test_a_special_claim_that_went_with_its_pod_between_two_lists_is_forgotten(virtual_time):
    async with seeing_claims_only_in_lists(nodes=1, gpu_count=4) as (virtual_cluster, _):
        await virtual_cluster.create(gpus.pod("p", requests={GPU: "4"}, limits={GPU: "4"}))
        while not await virtual_cluster.node_of("p"):
            await asyncio.sleep(0.1)
        now = DeleteOptions(grace_period=0)
        await virtual_cluster.client.delete(kind_of("Pod"), "p", namespace="default", options=now)
        while await virtual_cluster.claims():
            await asyncio.sleep(0.1)
        await virtual_cluster.create(gpus.pod("q", requests={GPU: "4"}, limits={GPU: "4"}))
        await virtual_cluster.quiet(200)
        assert await virtual_cluster.node_of("q")


async def test_where_the_server_does_not_keep_the_claim_of_extended_resources_they_are_left_out(
    virtual_cluster, caplog
):
    """As with Kubernetes 1.34, where the feature is off: the pod waits, and no device is held."""
    transport = virtual_cluster.transports["scheduler"]
    transport.drops = ("extendedResourceClaimStatus",)
    await virtual_cluster.create(gpus.pod("p", requests={GPU: "1"}, limits={GPU: "1"}))
    await virtual_cluster.create(objects.claim_template("t"))
    await virtual_cluster.quiet(60)
    found = await virtual_cluster.get("Pod", "p")
    assert not found["spec"].get("nodeName")
    assert condition(found)["reason"] == "Unschedulable"
    assert f"Insufficient {GPU}" in condition(found)["message"]
    assert await virtual_cluster.claims() == []
    made = [path for method, path in transport.heard if method == "POST" and path.endswith("/resourceclaims")]
    await virtual_cluster.create(gpus.pod("q", requests={GPU: "1"}, limits={GPU: "1"}))
    await virtual_cluster.create(gpus.pod("r", templates=["t"]))
    await virtual_cluster.quiet(400)
    assert await virtual_cluster.node_of("r")
    assert not await virtual_cluster.node_of("q")
    assert len(made) == 1
    assert made == [path for method, path in transport.heard if method == "POST" and path.endswith("/resourceclaims")]
    words = [record.getMessage() for record in caplog.records if "extended resources" in record.getMessage()]
    assert len(words) == 1
    assert "status.extendedResourceClaimStatus of pods" in words[0]


async def test_an_allocation_of_which_the_server_drops_a_part_is_given_back(virtual_cluster):
    virtual_cluster.transports["scheduler"].drops = ("allocation.nodeSelector",)
    await virtual_cluster.create(objects.claim_template("t"))
    await virtual_cluster.create(gpus.pod("p", templates=["t"]))
    await virtual_cluster.quiet(30)
    found = await virtual_cluster.get("Pod", "p")
    assert not found["spec"].get("nodeName")
    assert "does not keep status.allocation.nodeSelector of claims" in condition(found)["message"]
    assert [gpus.held(each) for each in await virtual_cluster.claims()] == [[]]
