"""Claims of pod groups: one for all members, until the group is deleted."""

from dray.api.gates import ALL_GATES
from dray.client.errors import ApiError
from dray.testing import objects
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, claim_template
from tests.controllers.claims import allocate, claims, noted, pod, settled, start
from tests.controllers.clients import without_pod_groups


def group(name, **templates):
    entries = [{"name": entry, "resourceClaimTemplateName": each} for entry, each in templates.items()]
    return objects.pod_group(name, resourceClaims=entries)


async def test_a_group_gets_one_claim_and_its_pods_are_told():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), claim_template("own"))
        await cluster.apply(pod("p1", group="g", gpu="t", nic="own"), pod("p2", group="g", gpu="t"))
        await settled(cluster)
        assert await claims(cluster) == []
        made = await cluster.create(group("g", gpu="t"))
        for name in ("p1", "p2"):
            await cluster.eventually(lambda name=name: noted(cluster, name))
        names = await noted(cluster, "g", "PodGroup")
        assert (await noted(cluster, "p1"))["gpu"] == names["gpu"] == (await noted(cluster, "p2"))["gpu"]
        assert (await noted(cluster, "p1"))["nic"].startswith("p1-nic-")
        shared = await cluster.get("ResourceClaim", names["gpu"])
        assert shared["metadata"]["generateName"] == "g-gpu-"
        assert shared["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert shared["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "name": "g",
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        ]
        assert len(await claims(cluster)) == 2


async def test_an_entry_that_differs_from_the_groups_is_the_pods_own():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(
            claim_template("t"), claim_template("other"), group("g", gpu="t"), pod("p", group="g", gpu="other")
        )
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        assert names["gpu"].startswith("p-gpu-")


async def test_the_groups_claim_outlives_its_pods_and_goes_with_the_group():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        owner = await cluster.create(group("g", gpu="t"))
        await cluster.create(pod("p", group="g", gpu="t"))
        name = (await cluster.eventually(lambda: noted(cluster, "p")))["gpu"]
        await allocate(cluster, name, owner)
        await cluster.delete("Pod", "p")
        await settled(cluster)
        assert (await cluster.get("ResourceClaim", name))["status"]["reservedFor"][0]["name"] == "g"
        await cluster.patch("PodGroup", "g", {"metadata": {"finalizers": None}})
        await cluster.delete("PodGroup", "g")

        async def gone():
            return await cluster.get("PodGroup", "g") is None and not await claims(cluster)

        await cluster.eventually(gone)


async def test_a_claim_of_the_group_that_is_gone_is_made_anew_for_all():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), group("g", gpu="t"), pod("p", group="g", gpu="t"))
        before = await cluster.eventually(lambda: noted(cluster, "p"))
        await cluster.delete("ResourceClaim", before["gpu"])

        async def renewed():
            now = await noted(cluster, "p")
            return now != before and now == await noted(cluster, "g", "PodGroup")

        await cluster.eventually(renewed)
        assert len(await claims(cluster)) == 1


async def test_a_template_that_the_group_waits_for_wakes_it():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(group("g", gpu="t"), pod("p", group="g", gpu="t"))

        async def told():
            events = [each for each in await cluster.list("Event") if each["reason"] == "FailedResourceClaimCreation"]
            return [each["involvedObject"]["kind"] for each in events]

        assert await cluster.eventually(told) == ["PodGroup"]
        await cluster.create(claim_template("t"))
        await cluster.eventually(lambda: noted(cluster, "p"))


async def test_a_member_bound_without_the_scheduler_reserves_for_its_group():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        await allocate(cluster, "c")
        shared = group("g")
        shared["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
        await cluster.create(shared)
        await cluster.create(pod("p", node="a", group="g", named={"gpu": "c"}))

        async def reserved():
            found = await cluster.get("ResourceClaim", "c")
            return [(each["resource"], each["name"]) for each in found["status"].get("reservedFor") or ()]

        assert await cluster.eventually(reserved) == [("podgroups", "g")]


async def test_with_group_claims_off_the_user_is_told_and_no_claim_is_made():
    async with LocalCluster() as cluster:
        # Made while it was on.
        await cluster.apply(claim_template("t"), group("g", gpu="t"), pod("p", group="g", gpu="t"))
        cluster.environment.gates = ALL_GATES.switched(DRAWorkloadResourceClaims=False)
        await start(cluster)

        async def told():
            return [each["message"] for each in await cluster.list("Event")]

        [message] = await cluster.eventually(told)
        assert message.endswith("claims of PodGroups are disabled")
        assert await claims(cluster) == []


async def test_servers_without_groups_are_not_asked_for_them():
    async with LocalCluster() as cluster:
        without_pod_groups(cluster.client)
        await start(cluster)
        await cluster.apply(claim_template("t"), pod("p", group="g", gpu="t"))
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        assert names["gpu"].startswith("p-gpu-")


async def test_a_refusal_that_passes_does_not_switch_groups_off():
    async with LocalCluster() as cluster:
        request, refused = cluster.client.request, []

        async def refuse_at_first(method, path, **kwargs):
            if path == "/apis/scheduling.k8s.io/v1beta1" and len(refused) < 2:
                refused.append(path)
                raise ApiError(403, "Forbidden", "the roles are not there yet")
            return await request(method, path, **kwargs)

        cluster.client.request = refuse_at_first
        await start(cluster)
        await cluster.apply(
            claim_template("t"), group("g", gpu="t"), pod("p", group="g", gpu="t"), pod("other", gpu="t")
        )
        await cluster.eventually(lambda: noted(cluster, "other"))
        assert await noted(cluster, "p") == {}
        names = await cluster.eventually(lambda: noted(cluster, "p"))
        assert names == await noted(cluster, "g", "PodGroup")
        assert len(await claims(cluster)) == 2
