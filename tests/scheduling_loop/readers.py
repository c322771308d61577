"""Readers of a cluster: the claim of a pod, conditions, events."""

from dray.testing.cluster import kind_of


async def claim_of(cluster, pod):
    """The only claim that is reserved for the pod."""
    found = [
        each
        for each in await cluster.claims()
        for user in (each.get("status") or {}).get("reservedFor") or ()
        if user["name"] == pod
    ]
    (claim,) = found
    return claim


def condition(pod, kind="PodScheduled"):
    return next((each for each in pod["status"].get("conditions") or () if each["type"] == kind), {})


async def events(cluster, reason):
    found = (await cluster.client.list_all(kind_of("Event")))["items"]
    return [each for each in found if each.get("reason") == reason]
