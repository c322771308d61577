"""What the writes cost that turn a pod into a running one, as a client in the server's process asks for them.

A round does each of them to a few objects, and of all rounds the shortest counts: CPU time, so that what else the
machine does matters little. SQLite gets them from several clients at once, as it does from controllers. The bound is on
what one pod takes altogether: more, and one process could not run 400 pods a second.
"""

import asyncio
import gc
import time
from functools import partial

import pytest

from dray.client.api import ApiClient
from dray.client.informer import Informer
from dray.client.interface import GroupVersionResource, PatchType, WriteOptions
from dray.server.api_server import ApiServer
from dray.server.application import Application
from dray.server.context import Context
from dray.server.inprocess import InProcessTransport
from dray.store.memory import MemoryStore
from dray.store.sqlite import SqliteStore

PODS = GroupVersionResource("", "v1", "pods")
CLAIMS = GroupVersionResource("resource.k8s.io", "v1", "resourceclaims")
EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
SCHEDULER = WriteOptions(field_manager="scheduler")
CONTROLLER = WriteOptions(field_manager="claim-controller", force=True)
# Objects in a round, and requests under way at a time where the store is durable.
MANY, TOGETHER = 32, 16
ROUNDS = 25
OF_A_POD = ("pod create", "claim create", "pod status apply", "claim status update", "binding", "event create")
BUDGET_US = 2500
INFORMERS = 8


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "train"}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/train:1.0",
                    "command": ["train"],
                    "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": "500m", "memory": "1Gi"}},
                }
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        },
    }


def claim(pod):
    name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{name}-gpu", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def allocated(claim, pod):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return {**claim, "status": {"allocation": allocation, "reservedFor": [consumer]}}


def applied_status(pod):
    name = pod["metadata"]["name"]
    statuses = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    metadata = {"name": name, "namespace": "default", "uid": pod["metadata"]["uid"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"resourceClaimStatuses": statuses}}


def binding(pod):
    metadata = {member: pod["metadata"][member] for member in ("name", "namespace", "uid")}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "node-1"}}


def event(pod):
    regarding = {member: pod["metadata"][member] for member in ("name", "namespace", "uid", "resourceVersion")}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod['metadata']['name']}-", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "scheduler",
        "reportingInstance": "scheduler-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned to node-1",
        "regarding": {"kind": "Pod", "apiVersion": "v1", **regarding},
    }


class Timed:
    """Sends requests and keeps the shortest time of each kind, in µs for one."""

    def __init__(self, client, together):
        self.client, self.together, self.best = client, together, {}

    async def each(self, what, send, bodies):
        found = []
        began = time.process_time()
        for at in range(0, len(bodies), self.together):
            part = bodies[at : at + self.together]
            found += await asyncio.gather(*map(send, part)) if self.together > 1 else [await send(part[0])]
        took = (time.process_time() - began) / len(bodies) * 1e6
        self.best[what] = min(self.best.get(what, took), took)
        return found

    async def round(self, number):
        client = self.client
        names = [f"p{number}-{index}" for index in range(MANY)]
        pods = await self.each("pod create", lambda body: client.create(PODS, body), list(map(pod, names)))
        claims = await self.each("claim create", lambda body: client.create(CLAIMS, body), list(map(claim, pods)))
        apply = partial(client.apply, PODS, subresource="status", options=CONTROLLER)
        await self.each("pod status apply", apply, list(map(applied_status, pods)))
        update = partial(client.update_status, CLAIMS, options=SCHEDULER)
        await self.each("claim status update", update, list(map(allocated, claims, pods)))
        for kind in (PatchType.MERGE, PatchType.STRATEGIC):
            waiting = {"type": kind.name, "status": "False", "reason": "Waiting", "message": "for devices"}
            await self.each(
                f"pod status {kind.name.lower()} patch",
                lambda name, kind=kind, body={"status": {"conditions": [waiting]}}: client.patch(
                    PODS, name, body, namespace="default", patch_type=kind, subresource="status", options=SCHEDULER
                ),
                names,
            )

        async def bind(body):
            return await client.create(PODS, body, name=body["metadata"]["name"], subresource="binding")

        await self.each("binding", bind, list(map(binding, pods)))
        await self.each("event create", lambda body: client.create(EVENTS, body), list(map(event, pods)))


async def started(store):
    server = ApiServer(Context(store))
    await server.start()
    transport = InProcessTransport(Application(server))
    return server, ApiClient(transport)


@pytest.fixture(autouse=True)
def collected_rarely():
    """As a server that runs does (dray.process.memory)."""
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(20_000, 20, 50)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("kept", ["memory", "sqlite"])
def test_writes_of_a_pod_in_process(benchmark, tmp_path, kept):
    async def story():
        store = MemoryStore() if kept == "memory" else SqliteStore(tmp_path)
        server, client = await started(store)
        timed = Timed(client, 1 if kept == "memory" else TOGETHER)
        for number in range(ROUNDS):
            await timed.round(number)
        await client.close()
        await server.close()
        await store.close()
        return timed.best

    best = asyncio.run(story())
    altogether = sum(best[what] for what in OF_A_POD)
    benchmark.extra_info.update({f"{what} µs": round(each) for what, each in best.items()}, pod_us=round(altogether))
    benchmark.pedantic(lambda: None, rounds=1)
    print(
        f"\n{kept}: " + ", ".join(f"{what} {each:.0f}" for what, each in best.items()) + f"; a pod {altogether:.0f} µs"
    )
    assert altogether < BUDGET_US, best


def test_an_event_to_informers_in_process(benchmark):
    """What one more informer costs for each event, until its cache has it."""

    async def story(informers):
        server, client = await started(MemoryStore())
        watching = [Informer(client, PODS) for _ in range(informers)]
        tasks = [asyncio.create_task(informer.run()) for informer in watching]
        for informer in watching:
            await informer.synced()
        best = 1.0
        for number in range(10):
            began = time.process_time()
            for at in range(0, 96, TOGETHER):
                names = [f"p{number}-{at + index}" for index in range(TOGETHER)]
                await asyncio.gather(*(client.create(PODS, pod(name)) for name in names))
            while any(len(informer.cache) < 96 * (number + 1) for informer in watching):
                await asyncio.sleep(0)
            best = min(best, (time.process_time() - began) / 96)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
        await server.close()
        return best * 1e6

    turns = [(asyncio.run(story(0)), asyncio.run(story(INFORMERS))) for _ in range(3)]
    alone, watched = map(min, zip(*turns, strict=True))
    each = (watched - alone) / INFORMERS
    benchmark.extra_info.update(event_us=round(each, 1))
    benchmark.pedantic(lambda: None, rounds=1)
    print(f"\nan event to one more informer: {each:.1f} µs")
    assert each < 60
