"""Slices, claims, pods and rules for tests of what happens to devices."""

from datetime import UTC, datetime, timedelta

from dray.client.clock import timestamp
from dray.testing import objects
from dray.testing.objects import DRIVER as DRIVER


class Shifted:
    """The time of day, as far ahead as a test wants it."""

    def __init__(self, **ahead):
        self.ahead = timedelta(**ahead)

    def now(self):
        return datetime.now(UTC) + self.ahead


def resource_slice(name, *devices, pool="pool", count=1, **members):
    """Devices by name, or as published."""
    return objects.resource_slice(name, *devices, pool=pool, resourceSliceCount=count, **members)


def taint(effect="NoExecute", key="broken", at=None, **members):
    return objects.taint(key, effect, timeAdded=timestamp(at) if at else None, **members)


def rule(name, selector=None, **of_taint):
    return objects.device_taint_rule(name, taint(**of_taint), deviceSelector=selector)


def result(device, pool="pool", **members):
    (made,) = objects.allocation(device, pool=pool, **members)["devices"]["results"]
    return made


def claim(name, *, namespace="default", **metadata):
    return objects.claim(name, namespace=namespace, **metadata)


def pod(name, *claims, namespace="default", node="n"):
    return objects.pod(name, claims=claims, namespace=namespace, nodeName=node or None)


async def allocate(cluster, name, *results, pods=(), namespace="default"):
    """Writes allocation and reservation as a scheduler does."""
    status = {"allocation": {"devices": {"results": list(results)}}}
    if pods:
        status["reservedFor"] = [objects.consumer(each) for each in pods]
    return await cluster.patch("ResourceClaim", name, {"status": status}, namespace=namespace, subresource="status")


async def running(cluster, name, *results, namespace="default", node="n"):
    """A pod with a claim of its own that holds these devices."""
    finalizers = ["resource.kubernetes.io/delete-protection"]
    await cluster.create(claim(name, namespace=namespace, finalizers=finalizers))
    made = await cluster.create(pod(name, name, namespace=namespace, node=node))
    await allocate(cluster, name, *results, pods=[made], namespace=namespace)
    return made
