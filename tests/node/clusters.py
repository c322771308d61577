"""A cluster with one node, a kubelet double on it, and pods whose claims are allocated without a scheduler."""

from contextlib import asynccontextmanager

from dray.testing.cluster import LocalCluster, kind_of
from dray.testing.kubelet.double import KubeletDouble
from dray.testing.objects import allocation, claim, consumer, device_class, node, pod

NODE = "worker"


@asynccontextmanager
async def kubelet_on_cluster(**options):
    async with (
        LocalCluster(objects=[node(NODE), device_class("gpu")]) as cluster,
        KubeletDouble(cluster.client, NODE, **options) as kubelet,
    ):
        yield cluster, kubelet


async def bound_pod(cluster, name, *claims, **members):
    """A pod on the node that may use these claims, each allocated: `claims` are names or (name, results, *requests)."""
    made = await cluster.create(pod(name, claims=[_name(each) for each in claims], nodeName=NODE, **members))
    for each in claims:
        await reserve(cluster, each, made)
    return made


async def reserve(cluster, wanted, consuming):
    """Makes the claim where it is not there, and reserves it for a pod."""
    name, namespace = _name(wanted), consuming["metadata"]["namespace"]
    requests = () if isinstance(wanted, str) else wanted[2:]
    stored = await cluster.get("ResourceClaim", name, namespace=namespace)
    stored = stored or await cluster.create(claim(name, *requests, namespace=namespace))
    status = stored.get("status") or {}
    if not status.get("allocation"):
        allocated = allocation(f"gpu-{name}", pool=NODE, nodeName=NODE)
        if not isinstance(wanted, str):
            allocated["devices"]["results"] = wanted[1]
        status = {"allocation": allocated}
    status = {**status, "reservedFor": [*(status.get("reservedFor") or ()), consumer(consuming)]}
    return await cluster.client.update_status(kind_of("ResourceClaim"), {**stored, "status": status})


def _name(wanted):
    return wanted if isinstance(wanted, str) else wanted[0]
