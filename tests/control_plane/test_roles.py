"""The roles in examples/deploy are enough for scheduler and controllers, and not more than enough."""

import asyncio
import contextlib
import copy
from pathlib import Path

import pytest
import yaml

from dray.client.api import ApiClient
from dray.control_plane.control_plane import ControlPlane, Lease, PlaneOptions
from dray.scheduling.scheduler import Options
from dray.scheduling_loop.loop import Sharing
from dray.server.authorization import User
from dray.server.inprocess import InProcessTransport
from dray.server.security.builtin_roles import cluster_roles
from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.objects import claim_template, node, priority_class
from tests.controllers.devices import rule
from tests.gpus import device_class, pod, slice_of

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
CONTROLLERS = ("resourceclaim", "device-taint-eviction", "resource-pool-status")
RBAC = "rbac.authorization.k8s.io/v1"


def manifests(name):
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))


def test_the_role_of_viewers_is_that_of_our_own_server():
    [role] = manifests("viewer")
    [own] = [each for each in cluster_roles() if each["metadata"]["name"] == role["metadata"]["name"]]
    assert role["rules"] == own["rules"]


def without(rules, resource, verb):
    """The rules, less one verb on one resource."""
    left = []
    for each in copy.deepcopy(rules):
        if resource in each["resources"]:
            others = [name for name in each["resources"] if name != resource]
            verbs = [name for name in each["verbs"] if name != verb]
            left += [{**each, "resources": others}] if others else []
            left += [{**each, "resources": [resource], "verbs": verbs}] if verbs else []
        else:
            left.append(each)
    return left


class Listening:
    """A way to the server that keeps what was forbidden."""

    def __init__(self, inner, forbidden):
        self._inner = inner
        self._forbidden = forbidden
        self.watch_seconds = inner.watch_seconds

    async def send(self, request):
        return self._heard(request, await self._inner.send(request))

    async def stream(self, request):
        return self._heard(request, await self._inner.stream(request))

    async def close(self):
        await self._inner.close()

    def _heard(self, request, answer):
        if answer.status == 403:
            self._forbidden.append(f"{request.method} {request.path}")
        return answer


def service_account(cluster, name, forbidden):
    place = "system:serviceaccounts"
    groups = (place, f"{place}:kube-system", "system:authenticated")
    user = User(f"system:serviceaccount:kube-system:{name}", groups)
    way = InProcessTransport(cluster.application, user)
    return ApiClient(Listening(way, forbidden))


def planes(cluster, forbidden):
    lease, name = "kube-system", "dray-scheduler"
    sharing = Sharing("kube-system", "one")
    scheduler = PlaneOptions(
        Options("default-scheduler"), (), Lease(namespace=lease, name=name, identity="one"), sharing=sharing
    )
    controllers = PlaneOptions(None, CONTROLLERS, Lease(namespace=lease, name="dray-controllers", identity="one"))
    return [
        ControlPlane(service_account(cluster, name, forbidden), scheduler),
        ControlPlane(service_account(cluster, "dray-controllers", forbidden), controllers),
    ]


@contextlib.asynccontextmanager
async def working(missing=None, forbidden=None, objects=()):
    """A cluster whose scheduler and controllers have the rights of the manifests, apart from one that is missing."""
    async with LocalCluster(objects=[node("n"), slice_of("n", 2), *objects]) as cluster:
        for name in ("scheduler", "controllers"):
            for document in manifests(name):
                if document["kind"] == "Deployment":
                    continue
                if missing and document["kind"] == "ClusterRole":
                    document["rules"] = without(document["rules"], *missing)
                kind = kind_of(document["kind"], document["apiVersion"])
                await cluster.client.create(kind, document)
        await cluster.create(device_class("gpu", extendedResourceName="example.com/gpu"))
        await cluster.create(claim_template("t"))
        running = planes(cluster, forbidden if forbidden is not None else [])
        tasks = [asyncio.create_task(plane.run()) for plane in running]
        try:
            yield cluster, running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def bound(cluster, name):
    async def ask():
        return ((await cluster.get("Pod", name)) or {}).get("spec", {}).get("nodeName")

    return ask


async def test_they_suffice_for_claims_extended_resources_preemption_and_taints():
    forbidden = []
    async with working(forbidden=forbidden) as (cluster, running):
        await cluster.create(pod("plain"))
        gang = {"schedulingPolicy": {"gang": {"minCount": 1}}}
        kind = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
        await cluster.create({**kind, "metadata": {"name": "g"}, "spec": gang})
        await cluster.create(pod("grouped", schedulingGroup={"podGroupName": "g"}))
        await cluster.eventually(bound(cluster, "grouped"))
        await cluster.create(pod("extended", requests={"example.com/gpu": "2"}, limits={"example.com/gpu": "2"}))
        await cluster.eventually(bound(cluster, "extended"))
        await cluster.delete("Pod", "extended")
        await cluster.create(pod("claiming", templates=["t"]))
        await cluster.create(pod("low", templates=["t"]))
        for name in ("plain", "claiming", "low"):
            await cluster.eventually(bound(cluster, name))
        await cluster.create(priority_class("high", 1000))
        await cluster.create(pod("urgent", templates=["t"], priorityClassName="high"))
        await cluster.eventually(bound(cluster, "urgent"))
        assert all(plane.obstacles() == [] for plane in running)
        await cluster.create(rule("broken", {"driver": "gpu.example.com"}, effect="NoExecute"))

        async def evicted():
            return {each["metadata"]["name"] for each in await cluster.list("Pod")} == {"plain", "grouped"}

        await cluster.eventually(evicted)

        async def released():
            return not await cluster.list("ResourceClaim")

        await cluster.eventually(released)

        async def told():
            return (await cluster.get("DeviceTaintRule", "broken")).get("status")

        await cluster.eventually(told)
        reasons = {event["reason"] for event in await cluster.list("Event")}
        assert {"Scheduled", "Preempted"} <= reasons
    assert forbidden == []


@pytest.mark.parametrize(
    ("missing", "word"),
    [
        (("resourceclaims/binding", "update"), "resourceclaims/binding"),
        (("resourceclaims/status", "update"), "resourceclaims/status"),
        (("pods/binding", "create"), "pods/binding"),
        (("podgroups", "list"), "podgroups.scheduling.k8s.io"),
        (("resourceslices", "list"), "resourceslices.resource.k8s.io"),
    ],
)
async def test_none_of_them_is_too_much(missing, word):
    """Without it the pod waits, and the pod or /readyz says for what."""
    async with working(missing) as (cluster, running):
        await cluster.create(pod("p", templates=["t"]))

        async def said():
            found = await cluster.get("Pod", "p")
            conditions = (found.get("status") or {}).get("conditions") or ()
            texts = [each.get("message", "") for each in conditions]
            return any(word in text for text in [*texts, *running[0].obstacles(), *running[1].obstacles()])

        await cluster.eventually(said)
        assert not await bound(cluster, "p")()


async def test_a_kind_that_may_not_be_watched_is_said_and_listed_again_instead():
    async with working(("devicetaintrules", "watch")) as (cluster, running):
        scheduler, _ = running

        async def named():
            start = "cannot watch devicetaintrules.resource.k8s.io: "
            return [each for each in scheduler.obstacles() if each.startswith(start)]

        await cluster.eventually(named)
        await cluster.create(pod("p", templates=["t"]))
        await cluster.eventually(bound(cluster, "p"))
        assert await named()


async def test_a_kind_that_may_not_be_listed_keeps_it_from_leading_until_it_may():
    async with working(("podgroups", "list")) as (cluster, running):
        scheduler, _ = running
        await cluster.create(pod("p"))

        async def named():
            start = "cannot list podgroups.scheduling.k8s.io: "
            return [each for each in scheduler.obstacles() if each.startswith(start)]

        await cluster.eventually(named)
        assert not scheduler.ready.is_set()
        leases = [each["metadata"]["name"] for each in await cluster.list("Lease", namespace="kube-system")]
        assert "dray-scheduler" not in leases
        role = next(each for each in manifests("scheduler") if each["kind"] == "ClusterRole")
        roles = kind_of("ClusterRole", RBAC)
        await cluster.client.patch(roles, "dray-scheduler", {"rules": role["rules"]})
        await cluster.eventually(bound(cluster, "p"))
        assert scheduler.obstacles() == []
