"""The lease of `dray scheduler` and `dray controllers`, however busy their connections are."""

import asyncio
import contextlib
from random import Random

from dray.cli.components import clients
from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.http import HttpTransport
from dray.client.interface import GroupVersionResource
from dray.control_plane.control_plane import ControlPlane, Lease, PlaneOptions
from dray.scheduling.scheduler import Options
from tests.scheduling_loop.faulty_server import BadDay
from tests.server.process import listening

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
PODS = GroupVersionResource("", "v1", "pods")
NODES = GroupVersionResource("", "v1", "nodes")
TEMPLATES = GroupVersionResource("resource.k8s.io", "v1", "resourceclaimtemplates")


class Held(BadDay):
    """Writes wait, apart from those of leases, until the test is over."""

    def __init__(self, target):
        super().__init__(target, Random(1), rate=0, slowest=0)
        self.held = 0
        self.over = asyncio.Event()

    async def _handle(self, request):
        if request.method == "GET" or "leases" in request.path:
            return await super()._handle(request)
        self.held += 1
        await self.over.wait()
        return self._break_off(request)


async def fill(client, count):
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    template = {"spec": {"spec": {"devices": {"requests": [request]}}}, "metadata": {"name": "t"}}
    await client.create(TEMPLATES, {"kind": "ResourceClaimTemplate", **template}, namespace="default")
    status = {"allocatable": {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}}
    await client.create(NODES, {"kind": "Node", "metadata": {"name": "n"}})
    await client.patch(NODES, "n", {"status": status}, subresource="status")
    await client.patch(NODES, "n", {"spec": {"taints": None}})
    for number in range(count):
        container = {"name": "c", "image": "i"}
        spec = {"containers": [container]}
        if number % 2:
            spec["resourceClaims"] = [{"name": "x", "resourceClaimTemplateName": "t"}]
        await client.create(
            PODS, {"kind": "Pod", "metadata": {"name": f"p-{number}"}, "spec": spec}, namespace="default"
        )


async def renewals(client, name, wanted):
    """Returns once the lease was renewed as often."""
    seen = set()
    while len(seen) <= wanted:
        with contextlib.suppress(Exception):
            seen.add((await client.get(LEASES, name, namespace="kube-system"))["spec"]["renewTime"])
        await asyncio.sleep(0.1)


async def burst(options):
    with listening() as server:
        held = Held(server.url)
        async with held.serving() as url, ApiClient(HttpTransport(Endpoint(server.url))) as straight:
            await fill(straight, 80)
            async with clients(Endpoint(url)) as (client, lease_client):
                plane = ControlPlane(client, options, lease_client=lease_client)
                running = asyncio.create_task(plane.run())
                await asyncio.wait_for(plane.ready.wait(), 30)
                async with asyncio.timeout(30):
                    while held.held < 32:
                        await asyncio.sleep(0.02)
                await asyncio.wait_for(renewals(straight, "l", 1), 30)
                assert held.held == 32
                assert not running.done()
                held.over.set()
                running.cancel()
                await asyncio.wait([running])


async def test_controllers_renew_their_lease_while_all_connections_are_taken():
    await burst(PlaneOptions(None, ("resourceclaim",), Lease(namespace="kube-system", name="l", identity="me")))


async def test_a_scheduler_renews_its_lease_while_all_connections_are_taken():
    await burst(PlaneOptions(Options("default-scheduler"), (), Lease(namespace="kube-system", name="l", identity="me")))
