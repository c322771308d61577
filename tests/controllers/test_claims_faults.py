"""Whatever the server does to single requests, in the end every live pod has its claims, and nobody else has any."""

import random

import pytest

from dray.client.errors import ApiError, ConnectionFailed
from dray.controllers.kinds import RESOURCE_CLAIMS
from dray.testing.cluster import LocalCluster
from dray.testing.objects import claim, claim_template
from tests.controllers.claims import allocate, claims, noted, pod, start
from tests.controllers.clients import Passing

VERBS = ("create", "apply", "update", "update_status", "delete_object", "get")


class Unreliable:
    """Refuses requests, loses them, or loses their answers."""

    def __init__(self, client, chance):
        self._client = client
        self._chance = chance
        self.calm = False

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name not in VERBS:
            return method

        async def call(resource, *args, **kwargs):
            if resource.plural == "events":
                return await method(resource, *args, **kwargs)
            throw = 1.0 if self.calm else self._chance.random()
            if throw < 0.1:
                raise ApiError(409, "Conflict", "the object has been modified")
            if throw < 0.2:
                raise ApiError(429, "TooManyRequests", "try later")
            if throw < 0.25:
                raise ConnectionFailed("connection refused", sent=False)
            answer = await method(resource, *args, **kwargs)
            if throw < 0.35:
                raise ConnectionFailed("connection reset", sent=True)
            return answer

        return call


@pytest.mark.parametrize("seed", range(3))
async def test_requests_that_fail_are_made_good(seed):
    chance = random.Random(seed)
    async with LocalCluster() as cluster:
        client = Unreliable(cluster.client, chance)
        cluster.environment.client = client
        await start(cluster)
        await cluster.create(claim_template("t"))
        for number in range(20):
            await cluster.create(pod(f"p{number}", gpu="t", nic="t"))
        for number in range(20):
            await cluster.eventually(lambda number=number: noted(cluster, f"p{number}"))
        assert len(await claims(cluster)) == 40
        for number in range(0, 20, 2):
            user = await cluster.get("Pod", f"p{number}")
            for name in (await noted(cluster, f"p{number}")).values():
                await allocate(cluster, name, user)
        for number in range(10):
            if number % 3:
                await cluster.delete("Pod", f"p{number}")
            else:
                body = {"status": {"phase": "Failed"}}
                await cluster.patch("Pod", f"p{number}", body, subresource="status")
        client.calm = True
        expected = {name for number in range(10, 20) for name in (await noted(cluster, f"p{number}")).values()}

        async def clean():
            return {each["metadata"]["name"] for each in await claims(cluster)} == expected

        await cluster.eventually(clean)
        assert len(expected) == 20
        used = [each for each in await claims(cluster) if (each.get("status") or {}).get("allocation")]
        assert len(used) == 10
        assert cluster.environment.informers.of(RESOURCE_CLAIMS).has_synced


class Beside(Passing):
    """Somebody else writes, just before the pod's status is written for the first time."""

    def __init__(self, client, meanwhile):
        super().__init__(client)
        self._meanwhile = meanwhile

    async def patch(self, resource, name, body, **options):
        if resource.plural == "pods" and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return await self._client.patch(resource, name, body, **options)


async def test_the_claim_that_another_controller_noted_stays():
    async with LocalCluster() as cluster:

        async def note():
            owner = await cluster.get("Pod", "p")
            reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner["metadata"]["uid"]}
            await cluster.create(claim("theirs", ownerReferences=[{**reference, "controller": True}]))
            status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "theirs"}]}
            await cluster.patch("Pod", "p", {"status": status}, subresource="status")

        cluster.environment.client = Beside(cluster.client, note)
        await start(cluster)
        await cluster.create(claim_template("t"))
        await cluster.create(pod("p", gpu="t"))

        async def ours_is_gone():
            return [each["metadata"]["name"] for each in await claims(cluster)] == ["theirs"]

        await cluster.eventually(ours_is_gone)
        assert await noted(cluster, "p") == {"gpu": "theirs"}


async def test_what_else_is_written_to_the_status_meanwhile_is_no_obstacle():
    async with LocalCluster() as cluster:

        async def refuse():
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            await cluster.patch("Pod", "p", {"status": {"conditions": [condition]}}, subresource="status")

        cluster.environment.client = Beside(cluster.client, refuse)
        await start(cluster)
        await cluster.create(claim_template("t"))
        await cluster.create(pod("p", gpu="t", nic="t"))
        await cluster.eventually(lambda: noted(cluster, "p"))
        assert len(await claims(cluster)) == 2
        assert (await cluster.get("Pod", "p"))["status"]["conditions"]


async def test_a_server_that_does_not_keep_the_names_is_reported(caplog):
    class Dropping(Passing):
        async def patch(self, resource, name, body, **options):
            return await self._client.patch(resource, name, {**body, "status": {}}, **options)

    async with LocalCluster() as cluster:
        cluster.environment.client = Dropping(cluster.client)
        await start(cluster)
        await cluster.create(claim_template("t"))
        await cluster.create(pod("p", gpu="t"))

        async def told():
            return (
                "resourceclaim: Pod default/p: the API server does not keep status.resourceClaimStatuses" in caplog.text
            )

        await cluster.eventually(told)
        assert len(await claims(cluster)) == 1
