import asyncio
import contextlib

from dray.api.gates import ALL_GATES
from dray.controllers.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.testing.cluster import LocalCluster
from tests.controllers.devices import DRIVER, Shifted, allocate, claim, resource_slice, result, rule, running, taint

MOMENT = 0.15


@contextlib.asynccontextmanager
async def answering(**options):
    async with LocalCluster(controllers=["resource-pool-status"], **options) as cluster:
        yield cluster


def request(name="q", **spec):
    return {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, **spec},
    }


async def status_of(cluster, name="q"):
    found = await cluster.get("ResourcePoolStatusRequest", name)
    return None if found is None else found.get("status")


async def is_seen(cluster):
    """Whether the controller's caches have what the server has: a request is answered once, from these."""
    for kind in (RESOURCE_CLAIMS, RESOURCE_SLICES):
        cache = cluster.environment.informers.of(kind).cache
        for each in (await cluster.client.list_all(kind))["items"]:
            cached = cache.get(each["metadata"]["name"], namespace=each["metadata"].get("namespace", ""))
            if cached is None or cached["metadata"]["resourceVersion"] != each["metadata"]["resourceVersion"]:
                return False
    return True


async def answer(cluster, name="q", **spec):
    await cluster.eventually(lambda: is_seen(cluster))
    await cluster.create(request(name, **spec))
    return await cluster.eventually(lambda: status_of(cluster, name))


async def allocate_for_admin(cluster, device):
    label = {"resource.kubernetes.io/admin-access": "true"}
    await cluster.patch("Namespace", "default", {"metadata": {"labels": label}})
    observer = claim("observer", finalizers=["resource.kubernetes.io/delete-protection"])
    observer["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    await cluster.create(observer)
    await allocate(cluster, "observer", result(device, adminAccess=True))


def sample(cluster, name, **labels):
    name = f"resourcepoolstatusrequest_controller_{name}"
    return cluster.sample(name, {"driver_name": DRIVER, **labels})


async def test_devices_are_counted():
    async with answering() as cluster:
        broken = {"name": "d2", "taints": [taint("NoSchedule")]}
        odd = {"name": "d3", "taints": [taint("None")]}
        await cluster.create(resource_slice("s", "d0", "d1", broken, odd, "d4", nodeName="n"))
        await running(cluster, "p", result("d0"))
        await allocate_for_admin(cluster, "d1")
        status = await answer(cluster)
        assert status["pools"] == [
            {
                "driver": DRIVER,
                "poolName": "pool",
                "nodeName": "n",
                "generation": 1,
                "resourceSliceCount": 1,
                "totalDevices": 5,
                "allocatedDevices": 1,
                "unavailableDevices": 1,
                "availableDevices": 3,
            }
        ]
        assert status["poolCount"] == 1
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"]) == ("Complete", "True")
        assert condition["reason"] == "CalculationComplete"
        assert condition["message"] == "Calculated status for 1 pools"
        assert sample(cluster, "requests_processed_total") == 1
        assert sample(cluster, "request_processing_duration_seconds_count") == 1
        assert sample(cluster, "request_processing_errors_total") is None


async def test_rules_make_devices_unavailable():
    async with answering() as cluster:
        await cluster.create(resource_slice("s", "d0", "d1", "d2"))
        await cluster.create(rule("one", {"device": "d0"}))
        await cluster.create(rule("again", {"driver": DRIVER, "device": "d0"}, effect="NoSchedule"))
        await cluster.create(rule("harmless", {"device": "d1"}, effect="None"))
        await cluster.create(rule("elsewhere", {"pool": "other"}))
        await cluster.create(rule("unselective"))
        (pool,) = (await answer(cluster))["pools"]
        assert (pool["unavailableDevices"], pool["availableDevices"]) == (1, 2)


async def test_only_the_newest_generation_and_the_wanted_pools_count():
    async with answering() as cluster:
        await cluster.create(resource_slice("old", "d0", "d1", pool="b", nodeName="n"))
        await cluster.create(resource_slice("new1", "d0", pool="b", generation=2, count=2, nodeName="n"))
        await cluster.create(resource_slice("new2", "d1", pool="b", generation=2, count=2, nodeName="m"))
        await cluster.create(resource_slice("a", "d0", pool="a"))
        await running(cluster, "p", result("d0", pool="a"), result("gone", pool="a"))
        status = await answer(cluster)
        first, second = status["pools"]
        assert [first["poolName"], second["poolName"]] == ["a", "b"]
        # A device that is not published any more is still held by somebody.
        assert (first["allocatedDevices"], first["availableDevices"]) == (2, 0)
        assert (second["totalDevices"], second["resourceSliceCount"], second["generation"]) == (2, 2, 2)
        assert "nodeName" not in second
        limited = await answer(cluster, "limited", limit=1)
        assert ([pool["poolName"] for pool in limited["pools"]], limited["poolCount"]) == (["a"], 2)
        named = await answer(cluster, "named", poolName="b")
        assert ([pool["poolName"] for pool in named["pools"]], named["poolCount"]) == (["b"], 1)
        nothing = await answer(cluster, "nothing", poolName="c")
        assert (nothing.get("pools") or [], nothing["poolCount"]) == ([], 0)


async def unanswered(cluster):
    """A request gets no answer for now."""
    await cluster.create(request())
    await asyncio.sleep(0.3)
    assert await status_of(cluster) is None


async def test_an_incomplete_pool_is_waited_for():
    async with answering() as cluster:
        await cluster.create(resource_slice("one", "d0", count=2))
        await unanswered(cluster)
        await cluster.create(resource_slice("two", "d1", count=2))
        status = await cluster.eventually(lambda: status_of(cluster))
        assert status["pools"][0]["totalDevices"] == 2


async def test_a_pool_that_cannot_be_told_of_is_waited_for():
    async with answering() as cluster:
        await cluster.create(resource_slice("s", "d0", generation=0))
        await unanswered(cluster)
        assert sample(cluster, "request_processing_errors_total") == 6
        await cluster.create(resource_slice("t", "d0", generation=1))
        await cluster.eventually(lambda: status_of(cluster))


async def test_an_answer_is_given_once():
    async with answering() as cluster:
        await cluster.create(resource_slice("s", "d0"))
        first = await answer(cluster)
        await cluster.patch("ResourceSlice", "s", {"spec": {"devices": [{"name": "d0"}, {"name": "d1"}]}})
        await cluster.patch("ResourcePoolStatusRequest", "q", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(MOMENT)
        assert await status_of(cluster) == first
        assert sample(cluster, "requests_processed_total") == 1


async def test_partitions_are_told_by_type():
    attribute = f"{DRIVER}/profile"

    def part(name, type_, memory):
        draws = [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]
        return {"name": name, "attributes": {"profile": {"string": type_}}, "consumesCounters": draws}

    async with answering() as cluster:
        sets = [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
        await cluster.create(resource_slice("counters", count=2, sharedCounters=sets))
        parts = [part("full", "full", "80Gi"), *(part(f"half{number}", "half", "40Gi") for number in range(3))]
        await cluster.create(resource_slice("parts", *parts, count=2, partitionTypeAttribute=attribute))
        (before,) = (await answer(cluster, "before"))["pools"]
        assert before["partitionSummary"] == [
            {"attribute": attribute, "type": "full", "total": 1, "allocatable": 1},
            {"attribute": attribute, "type": "half", "total": 3, "allocatable": 2},
        ]
        await running(cluster, "p", result("half0"))
        (after,) = (await answer(cluster, "after"))["pools"]
        assert [each["allocatable"] for each in after["partitionSummary"]] == [0, 1]


async def test_shared_capacity_is_told():
    async with answering() as cluster:
        shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "4"}}}
        await cluster.create(resource_slice("s", {"name": "d0", **shared}, {"name": "d1", **shared}, "d2"))
        share = {"shareID": "4b0cb0e2-1f6d-4d9c-9e5d-0d1b2a3c4d5e", "consumedCapacity": {"memory": "10Gi"}}
        await running(cluster, "p", result("d0", **share))
        (pool,) = (await answer(cluster))["pools"]
        assert pool["shareableSummary"] == {
            "fullyAvailableDevices": 1,
            "partiallyAvailableDevices": 1,
            "capacity": [
                {"name": "cores", "total": "8", "consumed": "0", "available": "8"},
                {"name": "memory", "total": "80Gi", "consumed": "10Gi", "available": "70Gi"},
            ],
        }
        assert (pool["totalDevices"], pool["allocatedDevices"], pool["availableDevices"]) == (3, 1, 2)


async def test_old_requests_are_deleted():
    async with answering() as cluster:
        await answer(cluster, "answered")
        await cluster.create(resource_slice("s", "d0", count=2))
        await cluster.create(request("pending"))
        await asyncio.sleep(MOMENT)
        store = cluster.server.context.store

        async def left(**ahead):
            async with answering(store=store, time=Shifted(**ahead)) as later:
                await asyncio.sleep(MOMENT)
                return {each["metadata"]["name"] for each in await later.list("ResourcePoolStatusRequest")}

        assert await left(minutes=59) == {"answered", "pending"}
        assert await left(minutes=61) == {"pending"}
        assert await left(hours=23) == {"pending"}
        assert await left(hours=25) == set()


async def test_with_the_gate_off_nothing_is_answered():
    gates = ALL_GATES.switched(DRAResourcePoolStatus=False)
    async with LocalCluster() as cluster:
        await cluster.create(resource_slice("s", "d0"))
        await cluster.create(request())
        async with answering(store=cluster.server.context.store, gates=gates) as other:
            await asyncio.sleep(MOMENT)
            assert await status_of(other) is None
