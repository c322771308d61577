"""Pods with claims, and what becomes of these: their names in the status, allocations and reservations."""

import asyncio

from dray.controllers.registry import make
from dray.testing import objects

ALLOCATION = objects.allocation("gpu-0", pool="a")


def pod(name, *, node=None, group=None, named=None, **templates):
    """`named` are claims by entry, the other arguments templates by entry."""
    return objects.pod(
        name,
        claims=named or {},
        templates=templates,
        nodeName=node,
        schedulingGroup={"podGroupName": group} if group else None,
        terminationGracePeriodSeconds=0,
    )


async def start(cluster):
    """The controller, in a cluster that was made without."""
    controller = make("resourceclaim", cluster.environment)
    cluster.start(cluster.environment.informers.run())
    await cluster.environment.informers.synced()
    cluster.start(controller.run())


async def claims(cluster):
    return await cluster.list("ResourceClaim", namespace="default")


async def noted(cluster, name, kind="Pod"):
    """The claims that the status names, by entry."""
    found = await cluster.get(kind, name)
    statuses = (found.get("status") or {}).get("resourceClaimStatuses") or ()
    return {each["name"]: each.get("resourceClaimName") for each in statuses}


def reservation(user):
    if user["kind"] == "PodGroup":
        return {**objects.consumer(user), "apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
    return objects.consumer(user)


async def allocate(cluster, name, *users):
    """As the scheduler does: allocation and reservations in one write, under the finalizer."""
    found = await cluster.get("ResourceClaim", name)
    finalizer = "resource.kubernetes.io/delete-protection"
    if finalizer not in found["metadata"].get("finalizers", ()):
        found = await cluster.patch("ResourceClaim", name, {"metadata": {"finalizers": [finalizer]}})
    status = {"allocation": ALLOCATION, "reservedFor": [reservation(user) for user in users]}
    return await cluster.patch("ResourceClaim", name, {"status": status}, subresource="status")


async def settled(cluster):
    """Long enough for everything that was to happen to have happened."""
    await asyncio.sleep(0.05)
    await cluster.environment.events.written()
