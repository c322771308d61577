"""Queues from their objects to the pods that they let in."""

from dray.client.foreign_kinds import KUEUE, definitions
from dray.scheduling.scheduler import Options
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from tests import gpus
from tests.scheduling.test_queues import GPU, QUEUE, cluster_queue, flavor, local_queue, nominal


def cluster(*more):
    there = [objects.node("n"), gpus.slice_of("n", 4), gpus.device_class("gpu"), objects.claim_template("one")]
    return LocalCluster(scheduler=Options(), controllers=["resourceclaim", "job"], objects=[*there, *more])


def job(name, number):
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}}
    metadata = {"name": name, "labels": {QUEUE: "team"}}
    spec = {"parallelism": number, "completions": number, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def make(local, document):
    resource = KUEUE[document["kind"]]
    body = {"apiVersion": resource.api_version, **document}
    await local.client.create(resource, body, namespace=document["metadata"].get("namespace", ""))


async def placed(local):
    return [each for each in await local.list("Pod") if each["spec"].get("nodeName")]


async def test_a_job_gets_what_its_queue_may_have():
    async with cluster(*definitions()) as local:
        await make(local, flavor())
        policy = {"concurrentAdmissionPolicy": {"migration": "RetainFirstAdmission"}}
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)}), **policy))
        await make(local, local_queue("team", "team"))
        await local.create(job("training", 3))

        async def told():
            events = await local.list("Event")
            return {each["involvedObject"]["kind"]: each["message"] for each in events if each["type"] == "Warning"}

        async def both():
            found = await told()
            return found if {"Pod", "ClusterQueue"} <= found.keys() else None

        messages = await local.eventually(both)
        assert "ClusterQueue team" in messages["Pod"]
        assert messages["ClusterQueue"] == "ignored by this scheduler: spec.concurrentAdmissionPolicy"
        assert len(await placed(local)) == 2
        quota = {
            "spec": {"resourceGroups": cluster_queue("team", ("any", {GPU: nominal(3)}))["spec"]["resourceGroups"]}
        }
        await local.client.patch(KUEUE["ClusterQueue"], "team", quota)

        async def all_placed():
            return len(await placed(local)) == 3

        await local.eventually(all_placed)


async def test_queues_say_what_their_pods_have_and_who_waits():
    async with cluster(*definitions()) as local:
        await make(local, flavor())
        usage = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        fair = {"fairSharing": {"weight": "2"}, "cohort": "org", "admissionScope": usage}
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)}), **fair))
        await make(local, cluster_queue("other", ("any", {GPU: nominal(1)}), cohort="org"))
        await make(local, local_queue("team", "team"))
        await local.create(job("training", 4))

        async def status(kind, name="team", namespace=""):
            found = await local.client.get(KUEUE[kind], name, namespace=namespace)
            return found.get("status") or {}

        async def settled():
            found = await status("ClusterQueue")
            return found if found.get("admittedWorkloads") == 3 and found.get("pendingWorkloads") == 1 else None

        found = await local.eventually(settled)
        (active,) = found["conditions"]
        assert (active["type"], active["status"], active["reason"]) == ("Active", "True", "Ready")
        amounts = {"name": GPU, "total": "3", "borrowed": "1"}
        assert found["flavorsUsage"] == [{"name": "any", "resources": [amounts]}]
        # One of the three that could be lent, in thousandths, by the weight: 166.7.
        assert found["fairSharing"] == {"weightedShare": 167}

        async def local_settled():
            found = await status("LocalQueue", namespace="default")
            return found if found.get("admittedWorkloads") == 3 and "fairSharing" in found else None

        found = await local.eventually(local_settled)
        assert found["flavorsUsage"] == [{"name": "any", "resources": [{"name": GPU, "total": "3"}]}]
        assert "lastUpdate" in found["fairSharing"]["admissionFairSharingStatus"]


async def test_pods_of_a_queue_that_is_drained_have_to_go():
    async with cluster(*definitions()) as local:
        await make(local, flavor())
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)})))
        await make(local, local_queue("team", "team"))
        await local.create(job("training", 2))

        async def all_placed():
            return len(await placed(local)) == 2

        async def all_leaving():
            pods = await placed(local)
            return pods if pods and all(each["metadata"].get("deletionTimestamp") for each in pods) else None

        await local.eventually(all_placed)
        await local.client.patch(KUEUE["ClusterQueue"], "team", {"spec": {"stopPolicy": "HoldAndDrain"}})
        for pod in await local.eventually(all_leaving):
            condition = next(each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget")
            assert condition["reason"] == "ClusterQueueStopped"
            assert "ClusterQueue team is stopped" in condition["message"]


async def test_a_local_queue_is_told_that_its_weight_counts_for_nothing():
    async with cluster(*definitions()) as local:
        await make(local, flavor())
        await make(local, cluster_queue("team", ("any", {GPU: nominal(2)})))
        usage = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        await make(local, cluster_queue("fair", ("any", {GPU: nominal(2)}), admissionScope=usage))
        for name in ("team", "fair"):
            found = local_queue(name, name)
            found["spec"]["fairSharing"] = {"weight": "2"}
            await make(local, found)

        async def told():
            found = [each for each in await local.list("Event") if each["reason"] == "NotActedUpon"]
            return {each["involvedObject"]["name"]: each["message"] for each in found}

        found = await local.eventually(told)
        assert list(found) == ["team"]
        assert "spec.fairSharing.weight" in found["team"]
