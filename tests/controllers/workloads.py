"""A stand-in for scheduler and kubelet in tests of workloads: pods run and become ready, and end when asked."""

from dray.client.clock import timestamp
from dray.testing.cluster import kind_of
from tests.controllers.jobs import is_running, place


async def step(local, *, broken=()):
    """Pods without a node run and are ready; those that are to go, go. Pods with an image in `broken` stay unready."""
    for pod in await local.list("Pod"):
        if pod["metadata"].get("deletionTimestamp"):
            await local.delete("Pod", pod["metadata"]["name"])
        elif not pod["spec"].get("nodeName"):
            await place(local, pod, ready=pod["spec"]["containers"][0]["image"] not in broken)


async def until(local, holds, **options):
    """Plays on until the function, asynchronous, gives something true; gives that."""

    async def moved():
        await step(local, **options)
        return await holds()

    return await local.eventually(moved)


async def pods(local):
    return [pod for pod in await local.list("Pod") if is_running(pod)]


async def make_ready(local, pod, *, since):
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": timestamp(since)}
    status = {"phase": "Running", "conditions": [condition]}
    await local.client.patch_status(kind_of("Pod"), pod, status)


async def reasons(local, kind):
    """(reason, message) of the events about objects of the kind."""
    await local.environment.events.written()
    found = await local.list("Event")
    return [(each["reason"], each["message"]) for each in found if each["involvedObject"].get("kind") == kind]
