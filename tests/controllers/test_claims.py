"""Claims are made from templates, and the pod is told."""

import asyncio
import re

from dray.client.errors import ApiError, ConnectionFailed
from dray.controllers.kinds import PODS, RESOURCE_CLAIMS
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim_template
from tests.controllers.claims import claims, noted, pod, settled, start

ENTRY = "resource.kubernetes.io/pod-claim-name"


async def test_a_pod_gets_the_claim_of_its_template():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t", metadata={"labels": {"made": "yes"}, "annotations": {"a": "b"}}))
        made = await cluster.create(pod("p", gpu="t"))
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        [claim] = await claims(cluster)
        metadata = claim["metadata"]
        assert names == {"gpu": metadata["name"]}
        assert re.fullmatch("p-gpu-[a-z0-9]{5}", metadata["name"])
        assert metadata["generateName"] == "p-gpu-"
        assert metadata["labels"] == {"made": "yes"}
        assert metadata["annotations"] == {"a": "b", ENTRY: "gpu"}
        assert "finalizers" not in metadata, "whoever allocates it adds that"
        assert metadata["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made["metadata"]["uid"], "controller": True}
        ]
        assert claim["spec"] == (await cluster.get("ResourceClaimTemplate", "t"))["spec"]["spec"]


async def test_the_names_are_noted_by_the_controllers_field_manager():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), pod("p", b="t", a="t"))
        await cluster.eventually(lambda: noted(cluster, "p"))
        found = await cluster.get("Pod", "p")
        assert [each["name"] for each in found["status"]["resourceClaimStatuses"]] == ["a", "b"]
        [entry] = [each for each in found["metadata"]["managedFields"] if each.get("subresource")]
        assert (entry["manager"], entry["subresource"]) == ("ResourceClaimController", "status")
        assert set(entry["fieldsV1"]) == {"f:status"}


async def test_two_writes_for_a_pod_and_not_one_more():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        writes = []
        send = cluster.client._call

        async def counted(method, path, *args, **kwargs):
            if method != "GET" and not path.endswith("/pods"):
                writes.append((method, path))
            return await send(method, path, *args, **kwargs)

        cluster.client._call = counted
        await asyncio.gather(*(cluster.create(pod(f"p{number}", gpu="t")) for number in range(40)))
        for number in range(40):
            await cluster.eventually(lambda number=number: noted(cluster, f"p{number}"))
        await settled(cluster)
        assert len([path for method, path in writes if method == "POST"]) == 40
        assert len([path for method, path in writes if method == "PATCH"]) == 40
        assert len(writes) == 80


async def test_pods_without_templates_are_left_alone():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        named = pod("named")
        named["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
        await cluster.apply(pod("plain"), named)
        await settled(cluster)
        assert await claims(cluster) == []
        assert not (await cluster.get("Pod", "named"))["status"].get("resourceClaimStatuses")


async def test_a_template_that_comes_later_wakes_the_pod():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(pod("p", gpu="t"))

        async def told():
            return [each for each in await cluster.list("Event") if each["reason"] == "FailedResourceClaimCreation"]

        [event] = await cluster.eventually(told)
        assert event["type"] == "Warning"
        assert event["involvedObject"]["kind"] == "Pod"
        assert event["involvedObject"]["name"] == "p"
        assert event["message"] == (
            'PodResourceClaim gpu: resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found; '
            "create it, or correct the name"
        )
        await cluster.create(claim_template("t"))
        await cluster.eventually(lambda: noted(cluster, "p"))
        assert [each["count"] for each in await told()] == [1]


async def test_a_refused_claim_is_told_and_tried_again():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        create, refusals = cluster.client.create, [ApiError(403, "Forbidden", "exceeded quota")] * 2

        async def refuse(resource, *args, **kwargs):
            if resource is RESOURCE_CLAIMS and refusals:
                raise refusals.pop()
            return await create(resource, *args, **kwargs)

        cluster.client.create = refuse
        await cluster.create(pod("p", gpu="t"))
        await cluster.eventually(lambda: noted(cluster, "p"))
        await cluster.environment.events.written()
        [event] = [each for each in await cluster.list("Event") if each["reason"] == "FailedResourceClaimCreation"]
        assert event["message"] == "PodResourceClaim gpu: exceeded quota"
        assert event["count"] == 2
        name = "dynamic_resource_allocation_resourceclaim_creates_total"
        labels = {"admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
        assert cluster.sample(name, {**labels, "status": "failure"}) == 2
        assert cluster.sample(name, {**labels, "status": "success"}) == 1


async def test_a_lost_answer_makes_no_second_claim():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        create, lost = cluster.client.create, []

        async def lose(resource, *args, **kwargs):
            made = await create(resource, *args, **kwargs)
            if resource is RESOURCE_CLAIMS and len(lost) < 1:
                lost.append(made)
                raise ConnectionFailed("broken pipe", sent=True)
            return made

        cluster.client.create = lose
        await cluster.create(pod("p", gpu="t"))
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        await settled(cluster)
        assert names == {"gpu": lost[0]["metadata"]["name"]}
        assert len(await claims(cluster)) == 1


async def test_a_claim_that_was_not_noted_is_adopted():
    async with LocalCluster() as cluster:
        await cluster.apply(claim_template("t"))
        owner = await cluster.create(pod("p", gpu="t"))
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
        for name, entry in (("other", "nic"), ("orphan", "gpu")):
            await cluster.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": {
                        "name": name,
                        "annotations": {ENTRY: entry},
                        "ownerReferences": [{**reference, "controller": True}],
                    },
                    "spec": {},
                }
            )
        await start(cluster)
        assert await cluster.eventually(lambda: noted(cluster, "p")) == {"gpu": "orphan"}
        assert len(await claims(cluster)) == 2


async def test_a_claim_that_is_noted_but_gone_is_made_anew_under_another_name():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), pod("p", gpu="t", nic="t"))
        before = await cluster.eventually(lambda: noted(cluster, "p"))
        await cluster.delete("ResourceClaim", before["gpu"])

        async def renewed():
            names = await noted(cluster, "p")
            return names if names["gpu"] != before["gpu"] else None

        after = await cluster.eventually(renewed)
        assert after["nic"] == before["nic"]
        assert {each["metadata"]["name"] for each in await claims(cluster)} == set(after.values())


async def test_a_noted_claim_of_somebody_else_is_not_used():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {}, "metadata": {"name": "c"}}
        await cluster.create(foreign)
        await cluster.create(pod("p", gpu="t"))
        body = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}}
        await cluster.patch("Pod", "p", body, subresource="status")
        await cluster.create(claim_template("t"))
        await cluster.patch("Pod", "p", {"metadata": {"labels": {"x": "y"}}})

        async def own():
            names = await noted(cluster, "p")
            return names["gpu"].startswith("p-gpu-")

        await cluster.eventually(own)


async def test_an_entry_that_needs_no_claim_gets_none():
    async with LocalCluster() as cluster:
        await cluster.apply(claim_template("t"), pod("p", gpu="t", nic="t"))
        body = {"status": {"resourceClaimStatuses": [{"name": "nic"}]}}
        await cluster.patch("Pod", "p", body, subresource="status")
        await start(cluster)

        async def made():
            return (await noted(cluster, "p")).get("gpu")

        await cluster.eventually(made)
        assert (await noted(cluster, "p")).get("nic") is None
        assert len(await claims(cluster)) == 1


async def test_a_pod_that_is_ending_gets_no_claim():
    async with LocalCluster() as cluster:
        await cluster.apply(claim_template("t"), pod("done", gpu="t"), pod("deleted", gpu="t"))
        await cluster.patch("Pod", "done", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.patch("Pod", "deleted", {"metadata": {"finalizers": ["example.com/wait"]}})
        await cluster.delete("Pod", "deleted")
        await start(cluster)
        await settled(cluster)
        assert await claims(cluster) == []


async def test_no_second_claim_while_the_informer_is_behind():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        cache = cluster.environment.informers.of(RESOURCE_CLAIMS).cache
        put, held = cache.put, []
        # The informer of claims hears nothing for a while, that of pods does.
        cache.put = lambda value: held.append(value) or []
        await cluster.apply(claim_template("t"), pod("p", gpu="t"))
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        for number in range(5):
            await cluster.patch("Pod", "p", {"metadata": {"labels": {"x": str(number)}}})
            await settled(cluster)
        assert len(await claims(cluster)) == 1
        assert await noted(cluster, "p") == names
        cache.put = put


async def test_two_controllers_at_once_make_one_claim():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster, LocalCluster() as other:
        other.environment.client = cluster.client
        other.environment.informers._client = cluster.client
        await start(other)
        await cluster.create(claim_template("t"))
        await asyncio.gather(*(cluster.create(pod(f"p{number}", gpu="t")) for number in range(20)))
        for number in range(20):
            await cluster.eventually(lambda number=number: noted(cluster, f"p{number}"))
        await settled(cluster)
        assert len(await claims(cluster)) == 20


async def test_claims_are_counted_by_what_they_are():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), pod("p", gpu="t"))
        foreign = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": {}, "metadata": {"name": "c"}}
        await cluster.create(foreign)
        await cluster.eventually(lambda: noted(cluster, "p"))
        name, labels = "dynamic_resource_allocation_resource_claims", {"allocated": "false", "admin_access": "false"}

        async def counted():
            return [
                cluster.sample(name, {**labels, "source": source}) for source in ("", "resource_claim_template")
            ] == [1, 1]

        await cluster.eventually(counted)


async def test_a_pod_that_vanishes_while_its_claim_is_made_leaves_nothing_behind():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        create = cluster.client.create

        async def late(resource, *args, **kwargs):
            if resource is RESOURCE_CLAIMS:
                await cluster.delete("Pod", "p")
                pods = cluster.environment.informers.of(PODS).cache
                while len(pods):
                    await asyncio.sleep(0.001)
            return await create(resource, *args, **kwargs)

        cluster.client.create = late
        await cluster.create(pod("p", gpu="t"))
        await settled(cluster)

        async def clean():
            return await cluster.get("Pod", "p") is None and not await claims(cluster)

        await cluster.eventually(clean)
