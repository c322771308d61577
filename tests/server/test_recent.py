"""Watchers in the process are handed documents, not bytes: they see what anybody else sees."""

import asyncio

import msgspec

from dray.api.catalogue import find
from dray.client.api import ApiClient
from dray.client.inprocess import InProcessTransport
from dray.client.interface import WriteOptions
from dray.server.api_server import ApiServer
from dray.server.application import LOCAL_USER, Application
from dray.server.authorization import ADMIN
from dray.server.context import Context
from dray.server.recent import Recent
from dray.store.memory import MemoryStore
from tests.server.test_twins import POD

PODS = find("v1", "Pod")
CLAIMS = {version: find(f"resource.k8s.io/{version}", "ResourceClaim") for version in ("v1", "v1beta1", "v1beta2")}
REQUESTS = {
    "v1": {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
    "v1beta1": {"name": "gpu", "deviceClassName": "gpu"},
    "v1beta2": {"name": "gpu", "exactly": {"deviceClassName": "gpu"}},
}
STATUS = {"status": {"message": "running", "conditions": []}}


class Forgetful(InProcessTransport):
    """Reads the bytes of every event, as a client elsewhere does."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.known = None


def claim(version):
    metadata = {"name": f"c-{version}", "namespace": "default", "labels": {"a": "b"}}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [REQUESTS[version]]}},
    }


async def write_all(client):
    pod = {**POD, "metadata": {"name": "p", "namespace": "default"}}
    await client.create(PODS, pod)
    await client.patch(PODS, "p", STATUS, namespace="default", subresource="status")
    await client.apply(
        PODS,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}}},
        options=WriteOptions(field_manager="test"),
    )
    for version, kind in CLAIMS.items():
        made = await client.create(kind, claim(version))
        made["metadata"]["annotations"] = {"changed": "yes"}
        await client.update(kind, made)


async def events(client, kind, count):
    found = []
    async for event in client.watch(kind, namespace="default", resource_version="1"):
        found.append((event.type, event.object))
        if len(found) == count:
            return found
    raise AssertionError("the watch ended")


def test_watchers_in_the_process_see_what_others_see():
    async def run():
        server = ApiServer(Context(MemoryStore()))
        await server.start()
        application, caller = Application(server), {LOCAL_USER: ADMIN}
        near = ApiClient(InProcessTransport(application, extensions=caller))
        far = ApiClient(Forgetful(application, extensions=caller))
        wanted = [(PODS, 3), *((kind, 6) for kind in CLAIMS.values())]
        reading = [asyncio.create_task(events(client, *each)) for each in wanted for client in (near, far)]
        await asyncio.sleep(0.05)
        await write_all(near)
        async with asyncio.timeout(10):
            seen = await asyncio.gather(*reading)
        shared = list(server.context.recent._documents.items())
        await near.close()
        await far.close()
        await server.close()
        return seen, shared

    seen, shared = asyncio.run(run())
    for here, there in zip(seen[::2], seen[1::2], strict=True):
        assert here == there
    assert len(shared) > 5
    assert all(msgspec.json.decode(value) == document for value, document in shared)


def test_what_is_kept_has_a_bound_in_bytes():
    recent, large = Recent(), 1 << 20
    values = [bytes([number]) * large for number in range(10)]
    for value in values:
        recent.put(value, {"length": len(value)})
        recent.put(value, {"length": len(value)})
    kept = [value for value in values if recent.get(value) is not None]
    assert kept == values[-4:]
    recent.put(b"x" * (8 * large), {})
    recent.put(b"small", {"a": "b"})
    assert recent.get(b"small") == {"a": "b"}
    assert not any(recent.get(value) for value in values)
