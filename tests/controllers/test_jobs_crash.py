"""Whatever breaks, each pod counts once: the controller dies at every one of its writes, and another takes over."""

import asyncio
import contextlib

import pytest

from dray.api.gates import ALL_GATES
from dray.client.errors import ApiError, ConnectionFailed
from dray.client.events import EventRecorder
from dray.client.informer import Informers
from dray.controllers.environment import Environment
from dray.controllers.registry import make
from dray.testing.cluster import LocalCluster
from tests.controllers.clients import Passing
from tests.controllers.jobs import Clock, end, job, nudge, pods, running

WRITES = ("create", "update_status", "patch", "delete", "delete_object")


class Mortal:
    """A client that dies at its n-th write, before or after the server has done it, and with it whoever uses it."""

    def __init__(self, client, writes, *, done):
        self._client = client
        self._left = writes
        self._done = done

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return method if name not in WRITES else lambda *args, **options: self._write(method, args, options)

    async def _write(self, method, args, options):
        self._left -= 1
        if self._left == 0 and self._done:
            await method(*args, **options)
        if self._left <= 0:
            raise ConnectionFailed("dead", sent=True)
        return await method(*args, **options)

    @property
    def is_dead(self):
        return self._left <= 0


class Process:
    """A controller with caches and memory of its own. Its events are not written, so that writes can be counted."""

    def __init__(self, local, client, gates=ALL_GATES):
        informers = Informers(client)
        recorder = EventRecorder(client, "test", time=local.time)
        self._informers = informers
        self._controller = make("job", Environment(client, informers, recorder, local.time, gates=gates))
        self._tasks = []

    async def __aenter__(self):
        self._tasks.append(asyncio.create_task(self._informers.run()))
        await self._informers.synced()
        self._tasks.append(asyncio.create_task(self._controller.run()))
        return self

    async def __aexit__(self, *_):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def end_two_one_of_them_badly(local):
    first, second, *_ = await running(local, 3)
    await end(local, first)
    await end(local, second, code=1)


async def until_death(local, mortal):
    """Plays the story with the controller that dies, as far as it gets."""
    async with Process(local, mortal):
        await local.create(job(**mortal.spec))
        story = asyncio.create_task(end_two_one_of_them_badly(local))
        while not mortal.is_dead and not story.done():
            await asyncio.sleep(0.001)
        # What it wrote last before its death may still come to the other pods.
        await asyncio.sleep(0.02)
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


@pytest.mark.parametrize("done", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
@pytest.mark.parametrize("writes", range(1, 13))
async def test_each_pod_counts_once(mode, done, writes):
    clock = Clock()
    async with LocalCluster(time=clock) as local:
        mortal = Mortal(local.client, writes, done=done)
        mortal.spec = {"parallelism": 3, "completions": 3, "completionMode": mode}
        await until_death(local, mortal)
        async with Process(local, local.client):
            phases = {pod["status"]["phase"] for pod in await pods(local)}
            if "Failed" not in phases:
                for pod in await running(local, 2 if "Succeeded" in phases else 3):
                    await end(local, pod, code=1)
                    break
            clock.advance(3600)
            await nudge(local)
            state = await worked_off(local)
        assert (state["succeeded"], state["failed"]) == (3, 1), state
        assert state["uncountedTerminatedPods"] == {}
        assert not any(pod["metadata"].get("finalizers") for pod in await pods(local))


async def worked_off(local, ended=None):
    """Ends every pod well until the Job is complete; its status then. `ended` gets the names of the pods."""

    async def work():
        for pod in await pods(local):
            if pod["status"]["phase"] == "Pending" and not pod["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(ApiError):
                    await end(local, pod)
                    if ended is not None:
                        ended.add(pod["metadata"]["name"])
        state = (await local.get("Job", "work")).get("status") or {}
        is_complete = any(each["type"] == "Complete" for each in state.get("conditions") or ())
        return state if is_complete else None

    return await local.eventually(work)


async def test_two_controllers_at_once_count_no_pod_twice():
    async with LocalCluster(time=Clock()) as local, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(Process(local, local.client))
        await local.create(job(parallelism=4, completions=12, completionMode="Indexed"))
        state = await worked_off(local)
        assert (state["succeeded"], state["completedIndexes"]) == (12, "0-11")
        assert state["uncountedTerminatedPods"] == {}


async def test_two_controllers_count_no_more_than_ended():
    async with LocalCluster(time=Clock()) as local, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(Process(local, local.client))
        await local.create(job(parallelism=4, completions=12))
        ended = set()
        state = await worked_off(local, ended)
        # What one made too much the other deletes; that may have ended, and counted, before.
        assert 12 <= state["succeeded"] <= len(ended)


class Forgetful(Passing):
    """A client that loses the answers to the first creations of pods."""

    def __init__(self, client, losses):
        super().__init__(client)
        self._losses = losses

    async def create(self, resource, *args, **options):
        made = await self._client.create(resource, *args, **options)
        if resource.plural == "pods" and self._losses:
            self._losses -= 1
            raise ConnectionFailed("the answer is lost", sent=True)
        return made


async def test_pods_whose_creation_was_not_answered_are_not_made_twice():
    async with LocalCluster(time=Clock()) as local, Process(local, Forgetful(local.client, 2)):
        await local.create(job(parallelism=3, completions=3))
        await worked_off(local)
        assert len(await pods(local)) == 3
