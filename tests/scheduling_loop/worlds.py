"""A test in a world of its own, and what is asked of it."""

import asyncio
import inspect

from dray.testing.cluster import kind_of
from tests.scheduling_loop.cluster import World
from tests.scheduling_loop.virtual_time import run

GPU = "deviceclass.resource.kubernetes.io/gpu"


def in_world(test):
    """With a scheduler, in virtual time."""

    def wrapped(*args, **kwargs):
        async def scenario():
            async with World() as world:
                world.schedule()
                await asyncio.sleep(1)
                await test(world, *args, **kwargs)

        run(scenario())

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    wrapped.pytestmark = getattr(test, "pytestmark", [])
    wrapped.__signature__ = _without_first(test)
    return wrapped


def _without_first(test):
    signature = inspect.signature(test)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


async def claim_of(world, pod):
    """The only claim that is reserved for the pod."""
    found = [
        each
        for each in await world.claims()
        for user in (each.get("status") or {}).get("reservedFor") or ()
        if user["name"] == pod
    ]
    (claim,) = found
    return claim


def condition(pod, kind="PodScheduled"):
    return next((each for each in pod["status"].get("conditions") or () if each["type"] == kind), {})


async def events(world, reason):
    found = (await world.client.list_all(kind_of("Event")))["items"]
    return [each for each in found if each.get("reason") == reason]
