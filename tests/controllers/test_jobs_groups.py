"""Jobs that say how their pods are to be scheduled get a PodGroup, and their pods are in it."""

from dray.api.gates import ALL_GATES
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim_template
from tests.controllers.claims import claims, noted
from tests.controllers.jobs import Clock, cluster, end, finished, job, pods, running, status
from tests.controllers.test_jobs_crash import Process

GANG = {"schedulingPolicy": {"gang": {}}}


async def group(local):
    found = await local.list("PodGroup")
    return found[0] if found else None


async def size(local):
    return (await group(local))["spec"]["schedulingPolicy"]["gang"]["minCount"]


async def until_size(local, number):
    async def is_so():
        return await size(local) == number

    await local.eventually(is_so)


async def test_the_pods_of_a_job_share_a_claim():
    async with LocalCluster(controllers=["job", "resourceclaim"], time=Clock()) as local:
        await local.create(claim_template("t"))
        entry = {"name": "net", "resourceClaimTemplateName": "t"}
        wished = job(parallelism=3, completions=3, scheduling={"resourceClaims": [entry]})
        wished["spec"]["template"]["spec"]["resourceClaims"] = [entry]
        await local.create(wished)

        async def names():
            found = [await noted(local, each["metadata"]["name"]) for each in await pods(local)]
            return found if len(found) == 3 and all(found) else None

        first, *others = await local.eventually(names)
        assert others == [first, first]
        [claim] = await claims(local)
        assert claim["metadata"]["name"] == first["net"]
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"


async def test_what_the_job_says_stands_in_workload_and_group():
    async with cluster() as local:
        await local.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 7,
            }
        )
        scheduling = {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": [{"name": "net", "resourceClaimTemplateName": "t"}],
        }
        wished = job(parallelism=3, completions=3, scheduling=scheduling)
        wished["spec"]["template"]["spec"]["priorityClassName"] = "high"
        made = await local.create(wished)
        members = await running(local, 3)
        [workload] = await local.list("Workload")
        found = await group(local)
        name = found["metadata"]["name"]
        assert {each["spec"]["schedulingGroup"]["podGroupName"] for each in members} == {name}
        [given] = workload["spec"]["podGroupTemplates"]
        assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "work"}
        workload_name = workload["metadata"]["name"]
        assert found["spec"]["workloadRef"] == {"workloadName": workload_name, "templateName": given["name"]}
        for member, value in scheduling.items():
            assert found["spec"][member] == given[member] == value
        assert (found["spec"]["priorityClassName"], found["spec"]["priority"]) == ("high", 7)
        owners = [(each["kind"], each.get("controller", False)) for each in found["metadata"]["ownerReferences"]]
        assert owners == [("Job", True), ("Workload", False)]
        assert workload["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]


async def test_the_gang_is_as_large_as_the_job_and_no_larger():
    async with cluster() as local:
        await local.create(job(parallelism=3, completions=5, scheduling=GANG))
        await running(local, 3)
        assert await size(local) == 3
        await local.patch("Job", "work", {"spec": {"parallelism": 4}})
        await until_size(local, 4)
        await local.patch("Job", "work", {"spec": {"parallelism": 2}})
        await until_size(local, 2)
        for number in range(1, 5):
            left = [each for each in await running(local, 2) if "finalizers" in each["metadata"]]
            await end(local, left[0])
            await status(local, succeeded=number)
        await until_size(local, 1)
        assert [each["spec"]["podGroupTemplates"][0]["schedulingPolicy"] for each in await local.list("Workload")] == [
            {"gang": {"minCount": 1}}
        ]
        for each in await running(local, 1):
            await end(local, each)
        await finished(local, "Complete")


async def test_whoever_comes_after_a_crash_goes_on_with_the_group():
    async with LocalCluster(time=Clock()) as local:
        async with Process(local, local.client):
            await local.create(job(parallelism=3, completions=3, scheduling=GANG))
            await running(local, 3)
            before = await group(local)
        await local.patch("Job", "work", {"spec": {"parallelism": 2}})
        async with Process(local, local.client):
            await until_size(local, 2)
        assert (await group(local))["metadata"]["uid"] == before["metadata"]["uid"]
        assert len(await local.list("Workload")) == 1


async def test_what_was_begun_without_a_group_goes_on_without():
    async with LocalCluster(time=Clock()) as local:
        await local.create(job(parallelism=2, completions=2, scheduling=GANG))
        async with Process(local, local.client, ALL_GATES.switched(WorkloadWithJob=False)):
            first, _ = await running(local, 2)
        await local.delete("Pod", first["metadata"]["name"])
        local.time.advance(11)
        async with Process(local, local.client):
            await running(local, 2)
        assert await group(local) is None


async def test_the_group_goes_with_the_job():
    controllers = ["job", "garbage-collector", "podgroup-protection"]
    async with LocalCluster(controllers=controllers, time=Clock()) as local:
        await local.create(job(scheduling={"schedulingPolicy": {"basic": {}}}))
        await running(local, 1)
        assert (await group(local))["spec"]["schedulingPolicy"] == {"basic": {}}
        await local.delete("Job", "work")

        async def is_gone():
            return not (await local.list("Pod") or await local.list("PodGroup") or await local.list("Workload"))

        await local.eventually(is_gone)


async def test_jobs_that_say_nothing_and_pods_of_another_group_get_none():
    async with cluster() as local:
        await local.create(job("plain"))
        elsewhere = job("elsewhere", scheduling=GANG)
        elsewhere["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "mine"}
        await local.create(elsewhere)
        await running(local, 1, "plain")
        [pod] = await running(local, 1, "elsewhere")
        assert pod["spec"]["schedulingGroup"] == {"podGroupName": "mine"}
        assert await group(local) is None


async def test_with_the_gate_off_there_are_no_groups():
    async with cluster(gates=ALL_GATES.switched(WorkloadWithJob=False)) as local:
        await local.create(job(scheduling=GANG))
        await running(local, 1)
        assert await group(local) is None
