"""Groups of `scheduling.x-k8s.io`, from the label on their pods to the status of the group."""

from dray.client.foreign_kinds import COSCHEDULING, definitions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.core import Core, bound, pod, refused, refused_groups

LABEL = "scheduling.x-k8s.io/pod-group"
ROOT = f"{objects.DRIVER}/root"


def group(name, size, **spec):
    metadata = {"name": name, "namespace": "default"}
    api = f"{COSCHEDULING.group}/{COSCHEDULING.version}"
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "spec": {"minMember": size, **spec}}


def in_group(made, name):
    return {**made, "metadata": {**made["metadata"], "labels": {LABEL: name}}}


def server(name):
    """Two PCIe roots, each with four GPUs and a NIC."""
    devices = [gpus.gpu(f"gpu-{n}", attributes={"root": f"r{n // 4}"}) for n in range(8)]
    devices += [gpus.gpu(f"nic-{n}", kind="nic", attributes={"root": f"r{n}"}) for n in range(2)]
    return objects.resource_slice(name, *devices, nodeName=name)


def aligned():
    """Four GPUs and a NIC on one root."""
    wanted = [objects.request("gpus", count=4), objects.request("nic", deviceClassName="nic")]
    return objects.claim_template("aligned", *wanted, constraints=[{"matchAttribute": ROOT}])


def cluster(nodes):
    there = [objects.node(f"n{n}") for n in range(nodes)] + [server(f"n{n}") for n in range(nodes)]
    there += [gpus.device_class("gpu"), gpus.device_class("nic"), aligned(), *definitions()]
    controllers = ["resourceclaim", "garbage-collector", "coscheduling"]
    return LocalCluster(scheduler=Options(), controllers=controllers, objects=there)


async def status(local, name):
    found = await local.client.get(COSCHEDULING, name, namespace="default")
    return found.get("status") or {}


async def test_the_gang_of_eight_with_four_gpus_and_a_nic_each():
    async with cluster(3) as local:
        await local.client.create(COSCHEDULING, group("distributed-training", 8, scheduleTimeoutSeconds=300))
        for n in range(8):
            await local.create(in_group(gpus.pod(f"w{n}", templates=["aligned"]), "distributed-training"))

        async def waits():
            events = await local.list("Event")
            told = [each for each in events if each["reason"] == "FailedScheduling"]
            return [each for each in told if each["involvedObject"]["kind"] == "PodGroup"]

        (event,) = await local.eventually(waits)
        assert "8 pods have to be placed together, but only 6 fit" in event["message"]
        assert event["involvedObject"]["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
        assert not any(gpus.held(each) for each in await local.list("ResourceClaim"))

        async def is_scheduling():
            return (await status(local, "distributed-training")).get("phase") == "Scheduling"

        await local.eventually(is_scheduling)
        await local.create(objects.node("n3"))
        await local.patch("Node", "n3", {"spec": {"taints": None}})
        await local.create(server("n3"))

        async def all_bound():
            return all(each["spec"].get("nodeName") for each in await local.list("Pod"))

        await local.eventually(all_bound)
        claims = await local.list("ResourceClaim")
        assert len(claims) == 8
        for claim in claims:
            *four, nic = gpus.held(claim)
            assert {int(each[4:]) // 4 for each in four} == {int(nic[4:])}
            assert len(four) == 4
        for n in range(8):
            await local.patch("Pod", f"w{n}", {"status": {"phase": "Running"}}, subresource="status")

        async def runs():
            found = await status(local, "distributed-training")
            return (found.get("phase"), found.get("running")) == ("Running", 8)

        await local.eventually(runs)


def named(made):
    """As the scheduler calls the kind."""
    return {**made, "kind": "PodGroup.scheduling.x-k8s.io"}


def test_the_sum_of_what_is_left_has_to_be_the_minimum():
    core = Core(objects.node("n", cpu="4"), objects.node("m", cpu="4"))
    core.put(named(group("g", 2, minResources={"cpu": "12"})))
    core.put(in_group(pod("p", cpu="1"), "g"), in_group(pod("q", cpu="1"), "g"))
    assert "minResources" in refused_groups(core.settle())["g"]
    core.put(named(group("g", 2, minResources={"cpu": "8"})))
    assert len(bound(core.settle())) == 2


def test_a_pod_that_names_two_groups_waits_and_is_told():
    core = Core(objects.node("n"), named(group("g", 1)), objects.pod_group("h"))
    core.put(in_group(pod("p", schedulingGroup={"podGroupName": "h"}), "g"))
    assert "the pod names several groups" in refused(core.settle())["p"]
    core.put(pod("p", schedulingGroup={"podGroupName": "h"}))
    assert bound(core.settle()) == {"p": "n"}
