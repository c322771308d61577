"""Claims are taken back from pods that have ended, and reserved for pods that came without the scheduler."""

import pytest

from dray.api.resource_claims import FINALIZER
from dray.client.interface import DeleteOptions
from dray.controllers.kinds import PODS, RESOURCE_CLAIMS
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, claim_template
from tests.controllers.claims import allocate, claims, noted, pod, reservation, settled, start


def free(found):
    return found is not None and not found.get("status") and FINALIZER not in found["metadata"].get("finalizers", ())


async def is_free(cluster, name):
    return free(await cluster.get("ResourceClaim", name))


async def users(cluster, name):
    found = await cluster.get("ResourceClaim", name)
    return [each["name"] for each in (found.get("status") or {}).get("reservedFor") or ()]


async def ready(cluster, name):
    """A pod with a template claim that is allocated and reserved, and the name of the claim."""
    user = await cluster.create(pod(name, gpu="t"))
    names = await cluster.eventually(lambda: noted(cluster, name))
    await allocate(cluster, names["gpu"], user)
    return names["gpu"]


async def none_left(cluster):
    """Waits until there is no claim."""

    async def gone():
        return not await claims(cluster)

    await cluster.eventually(gone)


async def test_the_claim_of_a_deleted_pod_goes_with_it():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        await ready(cluster, "p")
        await cluster.delete("Pod", "p")
        await none_left(cluster)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_the_claim_of_a_pod_that_has_ended_is_deleted_and_not_made_again(phase):
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        await ready(cluster, "p")
        await cluster.patch("Pod", "p", {"status": {"phase": phase}}, subresource="status")
        await none_left(cluster)
        await settled(cluster)
        assert not await claims(cluster)


async def test_an_unallocated_claim_is_deleted_with_its_pod():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim_template("t"), pod("p", gpu="t"))
        await cluster.eventually(lambda: noted(cluster, "p"))
        await cluster.delete("Pod", "p")
        await none_left(cluster)


async def test_reservation_and_allocation_go_in_one_write_and_nothing_is_written_twice():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        names = [await ready(cluster, f"p{number}") for number in range(10)]
        await settled(cluster)
        writes, send = {}, cluster.client._call

        async def counted(method, path, *args, **kwargs):
            if "/resourceclaims/" in path and method != "GET":
                name, _, subresource = path.rpartition("resourceclaims/")[2].partition("/")
                writes.setdefault(name, []).append((method, subresource))
            return await send(method, path, *args, **kwargs)

        cluster.client._call = counted
        await cluster.client.delete_collection(PODS, namespace="default", options=DeleteOptions(grace_period=0))
        await none_left(cluster)
        await settled(cluster)
        assert writes == {name: [("PUT", "status"), ("PUT", ""), ("DELETE", "")] for name in names}


async def test_a_claim_made_by_hand_is_freed_and_kept():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        first = await cluster.create(pod("p1", named={"gpu": "c"}))
        second = await cluster.create(pod("p2", named={"gpu": "c"}))
        await allocate(cluster, "c", first, second)
        await cluster.delete("Pod", "p1")

        async def one_left():
            return await users(cluster, "c") == ["p2"]

        await cluster.eventually(one_left)
        kept = await cluster.get("ResourceClaim", "c")
        assert kept["status"]["allocation"]
        assert FINALIZER in kept["metadata"]["finalizers"]
        await cluster.delete("Pod", "p2")
        await cluster.eventually(lambda: is_free(cluster, "c"))


async def test_a_claim_that_its_pod_no_longer_names_is_freed_with_the_pod():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim_template("t"))
        name = await ready(cluster, "p")
        await cluster.patch("ResourceClaim", name, {"metadata": {"ownerReferences": None}})

        async def is_renamed():
            return (await noted(cluster, "p"))["gpu"] != name

        await cluster.eventually(is_renamed)
        assert await users(cluster, name) == ["p"]
        await cluster.delete("Pod", "p")
        await cluster.eventually(lambda: is_free(cluster, name))


async def test_an_allocation_that_was_never_reserved_stays():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        await allocate(cluster, "c")
        await settled(cluster)
        assert (await cluster.get("ResourceClaim", "c"))["status"]["allocation"]


async def test_users_of_kinds_unknown_are_kept():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        user = await cluster.create(pod("p", named={"gpu": "c"}))
        await allocate(cluster, "c", user)
        other = {"apiGroup": "example.com", "resource": "machines", "name": "m", "uid": "1-2-3"}
        body = {"status": {"reservedFor": [other, reservation(user)]}}
        await cluster.patch("ResourceClaim", "c", body, subresource="status")
        await cluster.delete("Pod", "p")

        async def one_left():
            return await users(cluster, "c") == ["m"]

        await cluster.eventually(one_left)
        assert (await cluster.get("ResourceClaim", "c"))["status"]["allocation"]


async def test_the_reservation_of_another_pod_of_the_same_name_is_dropped():
    async with LocalCluster() as cluster:
        await cluster.create(claim("c"))
        first = await cluster.create(pod("p", named={"gpu": "c"}))
        await allocate(cluster, "c", first)
        await cluster.delete("Pod", "p")
        await cluster.create(pod("p", named={"gpu": "c"}))
        await start(cluster)
        await cluster.eventually(lambda: is_free(cluster, "c"))


async def test_a_pod_the_cache_does_not_know_yet_is_asked_for():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        pods = cluster.environment.informers.of(PODS).cache
        put = pods.put
        pods.put = lambda value: []
        await cluster.create(claim("c"))
        user = await cluster.create(pod("p", named={"gpu": "c"}))
        await allocate(cluster, "c", user)
        await settled(cluster)
        assert await users(cluster, "c") == ["p"]
        pods.put = put


async def test_a_claim_that_is_deleted_goes_when_it_is_unused():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim("new", finalizers=[FINALIZER]), claim("unused"), claim("used"))
        await allocate(cluster, "unused")
        user = await cluster.create(pod("p", named={"gpu": "used"}))
        await allocate(cluster, "used", user)
        for name in ("new", "unused", "used"):
            await cluster.delete("ResourceClaim", name)

        async def left(*names):
            return sorted(each["metadata"]["name"] for each in await claims(cluster)) == list(names)

        await cluster.eventually(lambda: left("used"))
        await settled(cluster)
        assert await users(cluster, "used") == ["p"]
        await cluster.delete("Pod", "p")
        await cluster.eventually(lambda: left())


async def test_a_foreign_finalizer_is_left_alone():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c", finalizers=[FINALIZER, "example.com/mine"]))
        await cluster.delete("ResourceClaim", "c")

        async def unprotected():
            return (await cluster.get("ResourceClaim", "c"))["metadata"]["finalizers"] == ["example.com/mine"]

        await cluster.eventually(unprotected)


async def test_what_happened_while_nobody_looked_is_made_good():
    async with LocalCluster() as cluster:
        await cluster.apply(claim("c"), claim("d"))
        gone = await cluster.create(pod("gone", named={"gpu": "c"}))
        done = await cluster.create(pod("done", named={"gpu": "d"}))
        await allocate(cluster, "c", gone)
        await allocate(cluster, "d", done)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": gone["metadata"]["uid"]}
        await cluster.create(claim("made", ownerReferences=[{**reference, "controller": True}]))
        await allocate(cluster, "made")
        await cluster.delete("Pod", "gone")
        await cluster.patch("Pod", "done", {"status": {"phase": "Failed"}}, subresource="status")
        await start(cluster)
        await cluster.eventually(lambda: is_free(cluster, "c"))
        await cluster.eventually(lambda: is_free(cluster, "d"))

        async def deleted():
            return await cluster.get("ResourceClaim", "made") is None

        await cluster.eventually(deleted)


async def test_a_deleted_pod_on_a_node_uses_its_claim_until_it_has_ended():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        user = pod("p", node="a", named={"gpu": "c"})
        user["metadata"]["finalizers"] = ["example.com/wait"]
        user = await cluster.create(user)
        await allocate(cluster, "c", user)
        await cluster.delete("Pod", "p")
        await settled(cluster)
        assert await users(cluster, "c") == ["p"]
        await cluster.patch("Pod", "p", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.eventually(lambda: is_free(cluster, "c"))


async def test_a_deleted_pod_that_never_had_a_node_uses_nothing():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        user = pod("p", named={"gpu": "c"})
        user["metadata"]["finalizers"] = ["example.com/wait"]
        user = await cluster.create(user)
        await allocate(cluster, "c", user)
        await cluster.delete("Pod", "p")
        await cluster.eventually(lambda: is_free(cluster, "c"))


async def test_the_claim_of_an_extended_resource_goes_when_the_pod_is_done():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        for name in ("told", "untold"):
            user = pod(name)
            user["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
            user = await cluster.create(user)
            reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": user["metadata"]["uid"]}
            annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
            owners = [{**reference, "controller": True}]
            await cluster.create(claim(f"{name}-x", annotations=annotations, ownerReferences=owners))
            await allocate(cluster, f"{name}-x", user)
        mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
        status = {"extendedResourceClaimStatus": {"resourceClaimName": "told-x", "requestMappings": [mapping]}}
        await cluster.patch("Pod", "told", {"status": status}, subresource="status")
        await settled(cluster)
        assert len(await claims(cluster)) == 2
        await cluster.patch("Pod", "told", {"status": {"phase": "Succeeded"}}, subresource="status")
        await cluster.delete("Pod", "untold")
        await none_left(cluster)


async def test_a_lost_race_is_run_again():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        first = await cluster.create(pod("p1", named={"gpu": "c"}))
        second = await cluster.create(pod("p2", named={"gpu": "c"}))
        await allocate(cluster, "c", first)
        update, raced = cluster.client.update_status, []

        async def race(resource, body, **kwargs):
            if resource is RESOURCE_CLAIMS and not raced:
                raced.append(body)
                reserved = [reservation(first), reservation(second)]
                await cluster.patch("ResourceClaim", "c", {"status": {"reservedFor": reserved}}, subresource="status")
            return await update(resource, body, **kwargs)

        cluster.client.update_status = race
        await cluster.delete("Pod", "p1")

        async def one_left():
            return await users(cluster, "c") == ["p2"]

        await cluster.eventually(one_left)
        assert (await cluster.get("ResourceClaim", "c"))["status"]["allocation"]
        assert raced


async def test_a_pod_bound_without_the_scheduler_gets_its_allocated_claim():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.apply(claim("c"), claim("d"))
        await allocate(cluster, "c")
        await cluster.create(pod("p", node="a", named={"gpu": "c", "nic": "d"}))

        async def reserved(name):
            return await users(cluster, name) == ["p"]

        await cluster.eventually(lambda: reserved("c"))
        assert await users(cluster, "d") == []
        await allocate(cluster, "d")
        await cluster.eventually(lambda: reserved("d"))


async def test_a_pod_without_a_node_gets_no_reservation():
    async with LocalCluster(controllers=["resourceclaim"]) as cluster:
        await cluster.create(claim("c"))
        await allocate(cluster, "c")
        await cluster.create(pod("p", named={"gpu": "c"}))
        await settled(cluster)
        assert await users(cluster, "c") == []
