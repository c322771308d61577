"""Slices over several machines: a gang of pods that share a claim gets the hosts of one slice, and no other."""

from contextlib import asynccontextmanager

import msgspec
import pytest

from dray.driver import RunnerOptions
from dray.driver.runner import DriverRunner
from dray.drivers.devices.classes import device_classes
from dray.drivers.tpu.driver import TpuDriver
from dray.drivers.tpu.options import TpuOptions
from dray.drivers.tpu.slices import TpuSlices
from dray.fleet.choice import ChoiceError, choose
from dray.fleet.machine_drivers import drivers_of
from dray.fleet.simulation import Simulation
from dray.node.cdi import resolve
from dray.node.errors import PrepareError
from dray.scheduling.scheduler import Options
from dray.testing.cluster import LocalCluster
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import claim, claim_template, node, pod, pod_group, request

from .hosts import write_host

TPU = "tpu.google.com"
LABEL = "cloud.google.com/gke-nodepool"
WANTED = request(
    "tpu", deviceClassName="slice.tpu.google.com", selectors=[f"device.attributes['{TPU}'].topology == '4x4'"]
)


def host(name, slice_name, **labels):
    own = {
        LABEL: slice_name,
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-accelerator-count": "4",
        "kubernetes.io/hostname": name,
    }
    return node(name, labels={**own, **labels})


def worker(name, gang="gang"):
    made = pod(name, claims=["gang"])
    made["metadata"]["labels"] = {"app": gang}
    term = {"labelSelector": {"matchLabels": {"app": gang}}, "topologyKey": "kubernetes.io/hostname"}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


@asynccontextmanager
async def cluster_of(*nodes):
    objects = [*nodes, *device_classes([TPU])]
    async with (
        LocalCluster(scheduler=Options(), controllers=["resourceclaim"], objects=objects) as cluster,
        DriverRunner(TpuSlices(), cluster.client, RunnerOptions()),
    ):
        yield cluster


def pools_of(cluster, count):
    async def published():
        found = sorted({each["spec"]["pool"]["name"] for each in await cluster.list("ResourceSlice")})
        return found if len(found) == count else None

    return cluster.eventually(published)


async def test_a_gang_gets_all_hosts_of_one_slice():
    nodes = [host(f"{name}-{number}", name) for number in range(4) for name in ("east", "west")]
    async with cluster_of(*nodes, host("half-0", "half")) as cluster:
        assert await pools_of(cluster, 2) == ["east/slice", "west/slice"]
        await cluster.create(claim("gang", WANTED))
        for number in range(4):
            await cluster.create(worker(f"worker-{number}"))

        async def bound():
            found = [each["spec"].get("nodeName") for each in await cluster.list("Pod")]
            return found if all(found) else None

        placed = await cluster.eventually(bound)
        (slice_name,) = {each.rpartition("-")[0] for each in placed}
        assert sorted(placed) == [f"{slice_name}-{number}" for number in range(4)]
        # The other slice is for another gang, and a third finds none.
        await cluster.create(claim("second", WANTED))
        await cluster.create(pod("second", claims=["second"]))
        await cluster.create(claim("third", WANTED))
        await cluster.create(pod("third", claims=["third"]))

        async def pool():
            status = (await cluster.get("ResourceClaim", "second")).get("status") or {}
            return status.get("allocation") and status["allocation"]["devices"]["results"][0]["pool"]

        other = {"east": "west", "west": "east"}[slice_name]
        assert await cluster.eventually(pool) == f"{other}/slice"
        assert not (await cluster.get("Pod", "third"))["spec"].get("nodeName")


async def test_a_gang_of_a_pod_group_gets_one_slice_and_a_second_waits_for_the_other():
    """The claim is the group's: made for it, with the slice, and gone with it."""
    nodes = [host(f"{name}-{number}", name) for number in range(4) for name in ("east", "west")]
    async with cluster_of(*nodes, claim_template("slice", WANTED)) as cluster:
        await pools_of(cluster, 2)
        entry = {"name": "tpu", "resourceClaimTemplateName": "slice"}
        for gang in ("first", "second", "third"):
            await cluster.create(pod_group(gang, minCount=4, resourceClaims=[entry]))
            for number in range(4):
                made = {**worker(f"{gang}-{number}", gang), "apiVersion": "v1"}
                made["spec"]["schedulingGroup"] = {"podGroupName": gang}
                made["spec"]["resourceClaims"] = [entry]
                made["spec"]["containers"][0]["resources"]["claims"] = [{"name": "tpu"}]
                await cluster.create(made)

        async def placed():
            found = {}
            for each in await cluster.list("Pod"):
                if each["spec"].get("nodeName"):
                    gang = each["metadata"]["labels"]["app"]
                    found.setdefault(gang, set()).add(each["spec"]["nodeName"])
            return found if sum(map(len, found.values())) == 8 else None

        found = await cluster.eventually(placed)
        assert len(found) == 2
        for hosts in found.values():
            (name,) = {each.rpartition("-")[0] for each in hosts}
            assert hosts == {f"{name}-{number}" for number in range(4)}


async def test_a_slice_is_published_when_its_last_host_comes_and_withdrawn_when_one_goes():
    async with cluster_of(*(host(f"a-{number}", "a") for number in range(3))) as cluster:
        await cluster.create(host("a-3", "a"))
        assert await pools_of(cluster, 1) == ["a/slice"]
        await cluster.delete("Node", "a-1")

        async def withdrawn():
            return not await cluster.list("ResourceSlice")

        await cluster.eventually(withdrawn)


async def test_a_host_that_gives_its_chips_away_keeps_its_slice_from_being_published(tmp_path):
    nodes = [host(f"a-{number}", "a") for number in range(4)]
    async with cluster_of(*nodes) as cluster, KubeletDouble(cluster.client, "a-0") as kubelet:
        assert await pools_of(cluster, 1) == ["a/slice"]
        settings = msgspec.convert(write_host(tmp_path, chips=4), TpuOptions)
        async with kubelet.running(TpuDriver(settings)):

            async def only_its_own():
                found = {each["spec"]["pool"]["name"] for each in await cluster.list("ResourceSlice")}
                return found == {"a-0"}

            await cluster.eventually(only_its_own)


async def test_a_host_prepares_the_slice_it_belongs_to_with_all_its_chips(tmp_path):
    nodes = [host(f"a-{number}", "a") for number in range(4)]
    settings = {**write_host(tmp_path, chips=4), "mode": "slice", "workers": "hosts"}
    driver = TpuDriver(msgspec.convert(settings, TpuOptions))
    async with cluster_of(*nodes) as cluster, KubeletDouble(cluster.client, "a-2") as kubelet, kubelet.running(driver):
        await kubelet.registered(TPU)
        await pools_of(cluster, 1)
        await cluster.create(claim("gang", WANTED))
        await cluster.create(pod("p", claims=["gang"], nodeSelector={"kubernetes.io/hostname": "a-2"}))

        async def bound():
            return (await cluster.get("Pod", "p"))["spec"].get("nodeName")

        await cluster.eventually(bound)
        started = await kubelet.start_pod("p")
        edits = resolve(started.cdi_ids["main"], [kubelet.cdi])
        assert len(edits.device_nodes) == 5
        told = edits.environment
        assert (told["TPU_TOPOLOGY"], told["TPU_HOST_BOUNDS"]) == ("4x4", "2,2,1")
        assert told["TPU_WORKER_ID"] == "2"
        assert len(told["TPU_WORKER_HOSTNAMES"].split(",")) == 4
        await cluster.patch("Node", "a-2", {"metadata": {"labels": {LABEL: "b"}}})
        await kubelet.restart()
        await kubelet.registered(TPU)
        with pytest.raises(PrepareError, match="the claim has a/slice, and node a-2 belongs to slice b"):
            await kubelet.try_pod("p")


def test_machines_of_a_fleet_make_whole_slices_or_are_refused():
    machines = choose(["ct6e-standard-4t:slice-4x4=8"]).machines
    assert [each.labels()[LABEL] for each in machines] == ["ct6e-standard-4t-slice-0"] * 4 + [
        "ct6e-standard-4t-slice-1"
    ] * 4
    assert machines[0].labels()["cloud.google.com/gke-tpu-topology"] == "4x4"
    assert [each.name for each in drivers_of(machines[0])] == ["dra.net", TPU]
    for choice, message in (
        ("ct6e-standard-4t:slice-4x4=3", "3 machines make no whole slices"),
        ("ct6e-standard-4t:slice-x=4", "'x' is no topology"),
        ("p5.48xlarge:partitions=1", "have no TPUs"),
    ):
        with pytest.raises(ChoiceError, match=message):
            choose([choice])


async def test_a_fleet_publishes_slices_as_the_driver_of_a_cluster_does():
    async with LocalCluster(scheduler=Options(), controllers=["resourceclaim"]) as cluster:
        chosen = choose(["ct6e-standard-4t:slice-4x4=4,ct6e-standard-8t:partitions=1"])
        simulation = Simulation(cluster.client, chosen)
        cluster.start(simulation.run())
        await pools_of(cluster, 6)
        slices = await cluster.list("ResourceSlice")
        selected = [each["spec"]["nodeSelector"] for each in slices if "nodeSelector" in each["spec"]]
        expression = {"key": LABEL, "operator": "In", "values": ["ct6e-standard-4t-slice-0"]}
        assert selected == [{"nodeSelectorTerms": [{"matchExpressions": [expression]}]}]
        await cluster.create(claim("gang", WANTED))
        await cluster.create(worker("w"))

        async def running():
            return ((await cluster.get("Pod", "w")).get("status") or {}).get("phase") == "Running"

        await cluster.eventually(running)
