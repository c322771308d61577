"""Devices that two claims hold are reported, and nothing else is."""

import asyncio

import pytest

from dray.scheduling.scheduler import Options
from dray.scheduling_loop import doubles
from dray.testing import objects
from dray.testing.cluster import LocalCluster, kind_of
from tests import gpus


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(doubles, "_MOMENT", 0.05)


def cluster():
    slices = [objects.resource_slice("s", gpus.gpu("gpu-0"), gpus.gpu("gpu-1"), pool="p")]
    return LocalCluster(scheduler=Options(), objects=[gpus.device_class("gpu"), *slices])


async def allocate(cluster, name, device="gpu-0", **more):
    """As another scheduler would, that knows of nobody."""
    request = objects.request(adminAccess=more.get("adminAccess"))
    made = await cluster.create(objects.claim(name, request))
    await write(cluster, made, {"allocation": objects.allocation(device, pool="p", **more)})


async def write(cluster, claim, status):
    await cluster.client.update_status(kind_of("ResourceClaim"), {**claim, "status": status})


async def reports(cluster):
    return {
        each["involvedObject"]["name"]: each["message"]
        for each in await cluster.list("Event")
        if each["reason"] == "DeviceHeldTwice"
    }


def twice(cluster):
    values = [registry.get_sample_value("dray_devices_held_twice") for registry in cluster.plane.metrics()]
    return next(value for value in values if value is not None)


async def test_two_claims_with_one_device_are_told_until_one_is_gone(caplog):
    async with cluster() as local:
        await allocate(local, "a")
        await allocate(local, "b")
        await allocate(local, "c", "gpu-1")

        async def both():
            found = await reports(local)
            return found if len(found) == 2 else None

        found = await local.eventually(both)
        text = "device gpu.example.com/p/gpu-0 is allocated to default/{} too: delete one of them with its pods"
        assert found == {"a": text.format("b"), "b": text.format("a")}
        assert twice(local) == 1
        assert "device gpu.example.com/p/gpu-0 is held by ResourceClaims default/a and default/b" in caplog.text
        await local.delete("ResourceClaim", "a")

        async def over():
            return twice(local) == 0

        await local.eventually(over)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"adminAccess": True}, {}),
        ({"shareID": "1" * 8 + "-1111-4111-8111-111111111111"}, {"shareID": "2" * 8 + "-1111-4111-8111-111111111111"}),
    ],
)
async def test_admin_access_and_shares_are_legal(first, second):
    async with cluster() as local:
        labels = {"labels": {"resource.kubernetes.io/admin-access": "true"}}
        await local.patch("Namespace", "default", {"metadata": labels})
        await allocate(local, "a", **first)
        await allocate(local, "b", **second)
        await asyncio.sleep(0.3)
        assert await reports(local) == {}
        assert twice(local) == 0


async def test_a_device_that_goes_from_one_claim_to_another_is_none_of_both():
    async with cluster() as local:
        await allocate(local, "a")
        await write(local, await local.get("ResourceClaim", "a"), {})
        await allocate(local, "b")
        await asyncio.sleep(0.3)
        assert await reports(local) == {}
