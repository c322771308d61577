"""Claims that the scheduler makes itself, for extended resources."""

import asyncio
import contextlib

import pytest

from dray.client.interface import DeleteOptions
from dray.testing.cluster import kind_of
from tests.scheduling_loop import objects
from tests.scheduling_loop.cluster import World
from tests.scheduling_loop.virtual_time import run
from tests.scheduling_loop.worlds import GPU, claim_of, condition, in_world


@in_world
async def test_a_claim_is_made_for_extended_resources(world):
    await world.create(objects.pod("p", requests={GPU: "2"}))
    await world.quiet()
    pod = await world.get("Pod", "p")
    claim = await claim_of(world, "p")
    assert pod["spec"]["nodeName"]
    assert len(objects.held(claim)) == 2
    status = pod["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]
    assert [each["resourceName"] for each in status["requestMappings"]] == [GPU]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]


@in_world
async def test_a_pod_with_both_kinds_of_claims_names_the_right_one(world):
    """Claims are written at the same time, and end in any order."""
    world.ways["scheduler"].slowest = 0.5
    await world.create(objects.template("t"))
    for number in range(4):
        await world.create(objects.pod(f"p{number}", templates=["t"], requests={GPU: "1"}))
    await world.quiet(60)
    assert len(await world.bound()) == 4
    for number in range(4):
        pod = await world.get("Pod", f"p{number}")
        special = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        claim = await world.get("ResourceClaim", special)
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
@in_world
async def test_a_special_claim_that_came_to_nothing_is_cleared_away(world, method, path, fate):
    world.ways["scheduler"].plan(method, path, fate)
    await world.create(objects.pod("p", requests={GPU: "4"}))
    await world.quiet(60)
    assert world.ways["scheduler"].faults == 1
    assert await world.node_of("p")
    with_devices = [each for each in await world.claims() if objects.held(each)]
    assert len(with_devices) == 1
    await world.create(objects.pod("q", requests={GPU: "4"}))
    await world.quiet(60)
    assert await world.node_of("q")


class Forgotten:
    """The answer to a watch from where the server no longer remembers."""

    status, headers = 410, {}

    async def __aiter__(self):
        yield b'{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}'

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def seeing_claims_only_in_lists(**world_options):
    async with World(**world_options) as world:
        world.schedule()
        way = world.ways["scheduler"]
        stream = way.stream

        async def forgetful(request):
            return Forgotten() if request.path.endswith("/resourceclaims") else await stream(request)

        way.stream = forgetful
        await asyncio.sleep(60)
        yield world, way


def test_a_special_claim_that_came_and_went_between_two_lists_is_forgotten():
    async def scenario():
        async with seeing_claims_only_in_lists() as (world, way):
            way.plan("POST", "/binding", 409)
            await world.create(objects.pod("p", requests={GPU: "4"}))
            await world.quiet(200)
            assert way.faults == 1
            assert await world.node_of("p")
            assert len(objects.held(await claim_of(world, "p"))) == 4

    run(scenario())


def test_a_special_claim_that_went_with_its_pod_between_two_lists_is_forgotten():
    async def scenario():
        async with seeing_claims_only_in_lists(nodes=1, gpus=4) as (world, _):
            await world.create(objects.pod("p", requests={GPU: "4"}))
            while not await world.node_of("p"):
                await asyncio.sleep(0.1)
            now = DeleteOptions(grace_period=0)
            await world.client.delete(kind_of("Pod"), "p", namespace="default", options=now)
            while await world.claims():
                await asyncio.sleep(0.1)
            await world.create(objects.pod("q", requests={GPU: "4"}))
            await world.quiet(200)
            assert await world.node_of("q")

    run(scenario())


@in_world
async def test_where_the_server_does_not_keep_the_claim_of_extended_resources_they_are_left_out(world, caplog):
    """As with Kubernetes 1.34, where the feature is off: the pod waits, and no device is held."""
    way = world.ways["scheduler"]
    way.drops = ("extendedResourceClaimStatus",)
    await world.create(objects.pod("p", requests={GPU: "1"}))
    await world.create(objects.template("t"))
    await world.quiet(60)
    found = await world.get("Pod", "p")
    assert not found["spec"].get("nodeName")
    assert condition(found)["reason"] == "Unschedulable"
    assert f"Insufficient {GPU}" in condition(found)["message"]
    assert await world.claims() == []
    made = [path for method, path in way.heard if method == "POST" and path.endswith("/resourceclaims")]
    await world.create(objects.pod("q", requests={GPU: "1"}))
    await world.create(objects.pod("r", templates=["t"]))
    await world.quiet(400)
    assert await world.node_of("r")
    assert not await world.node_of("q")
    assert len(made) == 1
    assert made == [path for method, path in way.heard if method == "POST" and path.endswith("/resourceclaims")]
    words = [record.getMessage() for record in caplog.records if "extended resources" in record.getMessage()]
    assert len(words) == 1
    assert "status.extendedResourceClaimStatus of pods" in words[0]


@in_world
async def test_an_allocation_of_which_the_server_drops_a_part_is_given_back(world):
    world.ways["scheduler"].drops = ("allocation.nodeSelector",)
    await world.create(objects.template("t"))
    await world.create(objects.pod("p", templates=["t"]))
    await world.quiet(30)
    found = await world.get("Pod", "p")
    assert not found["spec"].get("nodeName")
    assert "does not keep status.allocation.nodeSelector of claims" in condition(found)["message"]
    assert [objects.held(each) for each in await world.claims()] == [[]]
