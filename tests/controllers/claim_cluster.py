"""What the tests of the claim controller share."""

import asyncio

from dray.controllers.registry import make

DEVICES = {"results": [{"request": "gpu", "driver": "example.com", "pool": "a", "device": "gpu-0"}]}
ALLOCATION = {"devices": DEVICES}


def template(name, *, labels=None, annotations=None):
    metadata = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"metadata": metadata, "spec": {"devices": {"requests": [request]}}},
    }


def pod(name, *, node="", group="", named=None, **templates):
    """`named` are claims by entry, the other arguments templates by entry."""
    entries = [{"name": entry, "resourceClaimTemplateName": each} for entry, each in templates.items()]
    entries += [{"name": entry, "resourceClaimName": each} for entry, each in (named or {}).items()]
    spec = {
        "containers": [{"name": "m", "image": "i"}],
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": entries,
    }
    if node:
        spec["nodeName"] = node
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def claim(name, **metadata):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
    }


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
        return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", **_name(user)}
    return {"resource": "pods", **_name(user)}


def _name(user):
    return {"name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}


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
