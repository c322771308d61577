"""Slices, claims, pods and rules for tests of what happens to devices."""

from dray.client.clock import timestamp

DRIVER = "gpu.example.com"


def resource_slice(name, *devices, pool="pool", generation=1, count=1, **spec):
    """Devices by name, or as published."""
    where = {} if "nodeName" in spec or "perDeviceNodeSelection" in spec else {"allNodes": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **where,
            **({"devices": [_device(each) for each in devices]} if devices else {}),
            **spec,
        },
    }


def _device(each):
    return {"name": each} if isinstance(each, str) else each


def taint(effect="NoExecute", key="broken", at=None, **more):
    return {"key": key, "effect": effect, **({"timeAdded": timestamp(at)} if at else {}), **more}


def rule(name, selector=None, **of_taint):
    spec = {"taint": taint(**of_taint)}
    if selector is not None:
        spec["deviceSelector"] = selector
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": spec,
    }


def result(device, pool="pool", **more):
    return {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **more}


def claim(name, *, namespace="default", **metadata):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"devices": {"requests": [request]}},
    }


def pod(name, *claims, namespace="default", node="n"):
    entries = [{"name": f"c{number}", "resourceClaimName": each} for number, each in enumerate(claims)]
    container = {"name": "main", "image": "x"}
    if entries:
        container["resources"] = {"claims": [{"name": entry["name"]} for entry in entries]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "resourceClaims": entries, **({"nodeName": node} if node else {})},
    }


async def allocate(cluster, name, *results, pods=(), namespace="default"):
    """Writes allocation and reservation as a scheduler does."""
    status = {"allocation": {"devices": {"results": list(results)}}}
    if pods:
        status["reservedFor"] = [
            {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in pods
        ]
    return await cluster.patch("ResourceClaim", name, {"status": status}, namespace=namespace, subresource="status")


async def running(cluster, name, *results, namespace="default", node="n"):
    """A pod with a claim of its own that holds these devices."""
    finalizers = ["resource.kubernetes.io/delete-protection"]
    await cluster.create(claim(name, namespace=namespace, finalizers=finalizers))
    made = await cluster.create(pod(name, name, namespace=namespace, node=node))
    await allocate(cluster, name, *results, pods=[made], namespace=namespace)
    return made
