"""Device usage: time of claims, totals that survive a restart and stay small, and metrics of devices."""

import contextlib
from datetime import UTC, datetime, timedelta

from dray.client.discovery import serves
from dray.client.foreign_kinds import KUEUE, definitions
from dray.controllers.device_usage.controller import DeviceUsage
from dray.controllers.device_usage.totals import CONFIG_MAP, OTHERS, Consumer, Seconds, Totals
from dray.store.memory import MemoryStore
from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.objects import allocation, claim, consumer, device, device_class, pod, request, resource_slice

HOUR = 3600
START = datetime(2030, 1, 1, 3, 30, tzinfo=UTC)
ANN = Consumer("default", "ann", "default/team", "gpu")


class Clock:
    def __init__(self):
        self.moment = START

    def now(self):
        return self.moment

    def pass_(self, **time):
        self.moment += timedelta(**time)


@contextlib.asynccontextmanager
async def counting(store=None, clock=None, objects=()):
    async with LocalCluster(
        controllers=["device-usage"], store=store or MemoryStore(), time=clock or Clock(), objects=objects
    ) as cluster:
        yield cluster


def usage_of(cluster):
    """The controller at work, found by the handler that it added."""
    handlers = [each for part in cluster.plane.parts for each in [part._run] if part.name == "device-usage"]
    (run,) = handlers
    assert isinstance(run.__self__, DeviceUsage)
    return run.__self__


async def stored(cluster):
    await usage_of(cluster).store()
    found = await cluster.get("ConfigMap", CONFIG_MAP, namespace="kube-system")
    return Totals.parse(found["data"] if found else {})


async def totals(cluster):
    return {each: seconds.rounded() for each, seconds in (await stored(cluster)).since(0).items()}


def version(document):
    return document["metadata"]["resourceVersion"]


async def seen(cluster, name, wanted):
    """The controller has measured the claim as it is now, with the pods in `wanted`."""

    async def holds():
        informers = cluster.environment.informers
        for kind, each in (("ResourceClaim", name), *(("Pod", other) for other in wanted)):
            now = await cluster.get(kind, each)
            cached = informers.of(kind_of(kind)).cache.get(each, namespace="default")
            if (
                now is None
                or cached is None
                or cached["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]
            ):
                return False
        return True

    await cluster.eventually(holds)
    usage_of(cluster).measure()


async def allocate(cluster, name, user, *devices, data=None, **members):
    given = allocation(pool="node-1", nodeName="node-1")
    given["devices"] = {
        "results": [
            {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": each, **members}
            for each in devices
        ]
    }
    status = {"allocation": given, "reservedFor": [consumer(user)]}
    if data is not None:
        status["devices"] = [
            {"driver": "gpu.example.com", "pool": "node-1", "device": each, "data": data} for each in devices
        ]
    found = await cluster.get("ResourceClaim", name)
    await cluster.client.update_status(kind_of("ResourceClaim"), {**found, "status": status})
    await seen(cluster, name, [])


async def labelled(cluster):
    await cluster.patch("Namespace", "default", {"metadata": {"labels": {"dray.dev/user": "ann"}}})

    async def holds():
        found = cluster.environment.informers.of(kind_of("Namespace")).cache.get("default")
        return found and "dray.dev/user" in found["metadata"].get("labels", {})

    await cluster.eventually(holds)


async def test_waiting_allocated_and_used_time_of_a_claim():
    clock = Clock()
    async with counting(clock=clock) as cluster:
        await labelled(cluster)
        labels = {"kueue.x-k8s.io/queue-name": "team"}
        made = await cluster.create(pod("p", claims=["c"], labels=labels))
        await cluster.create(claim("c", request("gpu", count=2)))
        await seen(cluster, "c", ["p"])
        clock.pass_(minutes=10)
        await allocate(cluster, "c", made, "gpu-0", "gpu-1")
        clock.pass_(minutes=5)
        await allocate(cluster, "c", made, "gpu-0", "gpu-1", data={"utilization": {"percent": 50}})
        clock.pass_(minutes=30)
        # Two devices: 10 minutes of waiting, 35 with devices, 30 with known use.
        assert await totals(cluster) == {ANN: [2 * 45 * 60, 2 * 35 * 60, 2 * 30 * 60, 30 * 60]}
        # The hour that began meanwhile has its own part.
        found = await stored(cluster)
        late = found.since(datetime(2030, 1, 1, 4, 0, tzinfo=UTC).timestamp())
        assert late[ANN].rounded() == [2 * 15 * 60] * 3 + [15 * 60]


async def test_the_queue_is_the_cluster_queue_also_while_the_pod_waits():
    clock = Clock()
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {"clusterQueue": "research"},
    }
    store = MemoryStore()
    async with LocalCluster(store=store) as cluster:
        (definition,) = (each for each in definitions() if each["spec"]["names"]["kind"] == "LocalQueue")
        await cluster.create(definition)

        async def served():
            return await serves(cluster.client, KUEUE["LocalQueue"])

        await cluster.eventually(served)
        await cluster.client.create(KUEUE["LocalQueue"], queue)
    async with counting(store, clock) as cluster:
        await cluster.create(pod("p", claims=["c"], labels={"kueue.x-k8s.io/queue-name": "default"}))
        await cluster.create(claim("c", request("gpu")))
        await seen(cluster, "c", ["p"])

        async def counted():
            clock.pass_(minutes=1)
            return [each.queue for each in await totals(cluster)] == ["research"]

        await cluster.eventually(counted)


async def test_a_claim_that_is_gone_counts_no_more_and_one_that_nobody_waits_for_never():
    clock = Clock()
    async with counting(clock=clock) as cluster:
        made = await cluster.create(pod("p", claims=["c"]))
        await cluster.create(claim("c", request("gpu")))
        await cluster.create(claim("unused", request("gpu")))
        await seen(cluster, "c", ["p"])
        await allocate(cluster, "c", made, "gpu-0")
        clock.pass_(minutes=10)
        await cluster.delete("Pod", "p")
        await cluster.delete("ResourceClaim", "c")

        async def gone():
            return (
                cluster.environment.informers.of(kind_of("ResourceClaim")).cache.get("c", namespace="default") is None
            )

        await cluster.eventually(gone)
        clock.pass_(hours=5)
        assert await totals(cluster) == {Consumer("default", "", "", "gpu"): [600, 600, 0, 0]}


async def test_totals_survive_a_restart_and_the_time_in_between_is_added():
    clock, store = Clock(), MemoryStore()
    async with counting(store, clock) as cluster:
        made = await cluster.create(pod("p", claims=["c"]))
        await cluster.create(claim("c", request("gpu")))
        await seen(cluster, "c", ["p"])
        await allocate(cluster, "c", made, "gpu-0")
        clock.pass_(minutes=10)
        await totals(cluster)
    clock.pass_(minutes=20)
    async with counting(store, clock) as cluster:

        async def added():
            ((_, seconds),) = (await totals(cluster)).items()
            return seconds[:2] == [1800, 1800]

        await cluster.eventually(added)


async def test_a_share_counts_as_its_part_of_the_device():
    clock = Clock()
    shared = device("gpu-0", capacity={"memory": {"value": "80Gi"}}, allowMultipleAllocations=True)
    slice_ = resource_slice("s", shared, driver="gpu.example.com", pool="node-1", nodeName="node-1")
    async with counting(clock=clock, objects=[slice_]) as cluster:
        made = await cluster.create(pod("p", claims=["c"]))
        await cluster.create(claim("c", request("gpu")))
        await seen(cluster, "c", ["p"])
        share = {"shareID": "c1f8b3a0-0000-4000-8000-000000000001", "consumedCapacity": {"memory": "20Gi"}}
        await allocate(cluster, "c", made, "gpu-0", **share)
        clock.pass_(minutes=40)
        ((_, seconds),) = (await totals(cluster)).items()
        assert seconds[1] == 600


async def test_devices_are_counted_by_class_and_state():
    selector = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    objects = [
        device_class("gpu", selectors=selector),
        resource_slice(
            "s", device("gpu-0"), device("gpu-1"), driver="gpu.example.com", pool="node-1", nodeName="node-1"
        ),
        resource_slice("t", device("x"), driver="other.example.com", pool="node-1", nodeName="node-1"),
    ]
    async with counting(objects=objects) as cluster:
        made = await cluster.create(pod("p", claims=["c"]))
        await cluster.create(claim("c", request("gpu")))
        await seen(cluster, "c", ["p"])
        await allocate(cluster, "c", made, "gpu-0", data={"utilization": {"percent": 25, "memoryUsedBytes": 7}})
        assert cluster.sample("dray_devices", {"class": "gpu", "state": "allocated"}) == 1
        assert cluster.sample("dray_devices", {"class": "gpu", "state": "free"}) == 1
        assert cluster.sample("dray_devices", {"class": "", "state": "free"}) == 1
        labels = {"node": "node-1", "driver_name": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
        assert cluster.sample("dray_device_utilization_ratio", labels) == 0.25
        assert cluster.sample("dray_device_memory_used_bytes", labels) == 7


def test_hours_become_days_and_old_days_go():
    totals, start = Totals(), START.timestamp()
    for hour in range(30 * 24):
        totals.add(ANN, Seconds(1, 1), start + hour * HOUR, start + (hour + 1) * HOUR)
    totals.compact(start + 30 * 24 * HOUR)
    periods = [each for each in totals.data() if each != "until"]
    assert len([each for each in periods if "T" in each]) <= 50
    assert len(periods) <= 50 + 31
    assert totals.since(0)[ANN].rounded()[0] == 30 * 24 * HOUR
    totals.compact(start + 500 * 24 * HOUR)
    assert not totals.since(0)


def test_totals_are_bounded_however_many_consumers_there_are():
    totals, start = Totals(), START.timestamp()
    for day in range(20):
        for number in range(3000):
            each = Consumer(f"namespace-{number}" + "x" * 200, "", "", "gpu")
            totals.add(each, Seconds(1), start + day * 24 * HOUR, start + day * 24 * HOUR + 1)
    data = totals.data()
    assert sum(len(each) for each in data.values()) < 600 * 1024
    # The newest day is kept, and nothing of it is lost.
    newest = Totals.parse(data).since(start + 19 * 24 * HOUR)
    assert sum(each.requested for each in newest.values()) == 3000
    assert newest[Consumer(OTHERS, OTHERS, OTHERS, "gpu")].requested > 0


def test_damaged_data_is_left_out():
    good = '[["default", "ann", "default/team", "gpu", 1, 1, 0, 0]]'
    found = Totals.parse({"2026-11-18T03": good, "2026-11-18T04": "[[", "nonsense": "[]", "until": "x"})
    assert {each: seconds.rounded() for each, seconds in found.since(0).items()} == {ANN: [1, 1, 0, 0]}
    assert found.until is None
