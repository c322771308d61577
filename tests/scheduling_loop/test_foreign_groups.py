"""Groups of KAI and Kueue on a server of dray's own: objects in, pods on nodes, events for what nobody acts on."""

from dray.client.foreign_kinds import KAI_GROUP, KAI_TOPOLOGY, KUEUE_TOPOLOGY, definitions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_kai_groups import constraint, kai_group, kai_topology
from tests.scheduling.test_kueue_groups import PREFIX, topology
from tests.scheduling_loop.test_groups import bound


def cluster():
    there = [objects.node(f"n{n}", labels={"zone": "z", "rack": f"r{n // 2}"}) for n in range(4)]
    there += [gpus.slice_of(f"n{n}", 2) for n in range(4)]
    there += [gpus.device_class("gpu"), objects.claim_template("one"), *definitions()]
    return LocalCluster(scheduler=Options(), controllers=["resourceclaim", "garbage-collector", "job"], objects=there)


async def made(local, kind, found):
    document = {**found[1], "apiVersion": f"{kind.group}/{kind.version}"}
    metadata = {key: value for key, value in document["metadata"].items() if key != "uid"}
    await local.client.create(kind, {**document, "metadata": metadata})


async def untainted(local):
    for n in range(4):
        await local.patch("Node", f"n{n}", {"spec": {"taints": None}})


async def racks(local, *names):
    await bound(local, *names)
    nodes = [(await local.get("Pod", name))["spec"]["nodeName"] for name in names]
    return [int(each[1:]) // 2 for each in nodes]


async def test_a_group_of_kai_with_sub_groups_in_racks():
    async with cluster() as local:
        await untainted(local)
        await made(local, KAI_TOPOLOGY, kai_topology())
        parts = [{"name": name, "minMember": 4, "topologyConstraint": constraint("rack")} for name in ("a", "b")]
        await made(local, KAI_GROUP, kai_group("g", subGroups=parts, priorityClassName="none", schedulingBackoff=1))
        for part in "ab":
            for n in range(4):
                pod = gpus.pod(f"{part}{n}", templates=["one"])
                pod["metadata"]["annotations"] = {"pod-group-name": "g"}
                pod["metadata"]["labels"] = {"kai.scheduler/subgroup-name": part}
                await local.create(pod)
        first, second = [await racks(local, *(f"{part}{n}" for n in range(4))) for part in "ab"]
        assert (len(set(first)), len(set(second))) == (1, 1)
        assert first != second

        async def told():
            events = await local.list("Event")
            return [each["message"] for each in events if each["reason"] == "NotActedUpon"]

        (message,) = await local.eventually(told)
        assert "spec.schedulingBackoff: " in message
        assert "there is no PriorityClass none" in message


async def test_a_group_of_kai_has_the_priority_of_its_class():
    async with cluster() as local:
        await untainted(local)
        for n in range(4):
            await local.create(gpus.pod(f"low{n}", templates=["one", "one"]))
        await bound(local, *(f"low{n}" for n in range(4)))
        metadata = {"name": "urgent"}
        await local.create(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 7}
        )
        await made(local, KAI_GROUP, kai_group("g", minMember=1, priorityClassName="urgent"))
        pod = gpus.pod("p", templates=["one"])
        pod["metadata"]["annotations"] = {"pod-group-name": "g"}
        await local.create(pod)
        await bound(local, "p")


async def test_a_job_whose_pods_want_one_rack():
    async with cluster() as local:
        await untainted(local)
        await made(local, KUEUE_TOPOLOGY, topology("zone", "rack"))
        template = gpus.pod("w", templates=["one"])
        template["spec"]["restartPolicy"] = "Never"
        said = {f"{PREFIX}podset-required-topology": "rack"}
        spec = {
            "parallelism": 3,
            "completions": 3,
            "completionMode": "Indexed",
            "template": {"metadata": {"annotations": said}, "spec": template["spec"]},
        }
        await local.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})

        async def all_there():
            pods = await local.list("Pod")
            return len(pods) == 3 and all(each["spec"].get("nodeName") for each in pods) and pods

        pods = await local.eventually(all_there)
        assert len({int(each["spec"]["nodeName"][1:]) // 2 for each in pods}) == 1


async def told(local):
    events = [each for each in await local.list("Event") if each["reason"] == "NotActedUpon"]
    return {each["involvedObject"]["name"]: each["message"] for each in events}


async def test_a_job_is_told_of_a_priority_class_that_does_not_exist():
    async with cluster() as local:
        pod = gpus.pod("p")["spec"]
        template = {"metadata": {"labels": {"kai.scheduler/queue": "lab"}}, "spec": {**pod, "restartPolicy": "Never"}}
        for name, chosen in (("j", "none"), ("k", "train")):
            metadata = {"name": name, "labels": {"priorityClassName": chosen}}
            spec = {"template": template, "suspend": True}
            await local.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
        found = await local.eventually(lambda: told(local))
        assert found == {"j": "ignored by this scheduler: priorityClassName: there is no PriorityClass none"}


async def test_a_job_is_told_that_it_is_placed_by_itself():
    async with cluster() as local:
        said = {f"{PREFIX}podset-group-name": "both", f"{PREFIX}podset-required-topology": "rack"}
        template = {"metadata": {"annotations": said}, "spec": gpus.pod("p")["spec"]}
        spec = {"template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}}
        await local.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
        found = await local.eventually(lambda: told(local))
        assert list(found) == ["j"]
        assert f"{PREFIX}podset-group-name: a Job is placed by itself" in found["j"]
