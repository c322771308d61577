"""The way to a server in the parent process: requests, streams, and the loss of either end."""

import asyncio
import contextlib
import socket

import pytest

from dray.client import link as link_module
from dray.client.api import ApiClient
from dray.client.errors import AlreadyExists, ApiError, ConnectionFailed
from dray.client.link import LinkServer, LinkTransport
from dray.client.transport import Request
from dray.testing.cluster import LocalCluster, kind_of

CONFIG_MAPS = kind_of("ConfigMap")


def config_map(name, data="x"):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}}


@contextlib.asynccontextmanager
async def linked():
    """A client on one end, and the server's end."""
    async with LocalCluster() as cluster:
        here, there = socket.socketpair()
        server = await LinkServer.serve(cluster.client._transport, here)
        transport = await LinkTransport.connect(there)
        try:
            yield ApiClient(transport), server, transport
        finally:
            await transport.close()
            server.close()
            await asyncio.sleep(0)


async def test_requests_are_answered_as_by_the_server_itself():
    async with linked() as (client, _, _):
        made = await client.create(CONFIG_MAPS, config_map("one"))
        assert (await client.get(CONFIG_MAPS, "one", namespace="default")) == made
        with pytest.raises(ApiError) as refusal:
            await client.create(CONFIG_MAPS, config_map("one"))
        assert isinstance(refusal.value, AlreadyExists)
        names = {f"many-{number}" for number in range(200)}
        await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(name)) for name in names))
        listed = await client.list_all(CONFIG_MAPS, namespace="default")
        assert {each["metadata"]["name"] for each in listed["items"]} >= names


async def test_bodies_larger_than_the_socket_takes_at_once():
    async with linked() as (client, _, _):
        text = "x" * 900_000
        made = await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"big-{n}", text)) for n in range(8)))
        assert all(each["data"]["a"] == text for each in made)


async def test_a_watch_brings_events_until_it_is_left():
    async with linked() as (client, server, _):
        seen = []
        async with contextlib.aclosing(client.watch(CONFIG_MAPS, namespace="default")) as events:
            await client.create(CONFIG_MAPS, config_map("one"))
            async for event in events:
                seen.append((event.type, event.object["metadata"]["name"]))
                if len(seen) == 1:
                    await client.delete(CONFIG_MAPS, "one", namespace="default")
                else:
                    break
        assert seen == [("ADDED", "one"), ("DELETED", "one")]
        for _ in range(100):
            if not server._tasks:
                break
            await asyncio.sleep(0.01)
        assert not server._tasks


async def test_who_asks_is_told_when_the_server_goes():
    async with linked() as (_, server, transport):
        stream = await transport.stream(Request("GET", "/api/v1/configmaps", {"watch": "true"}))
        waiting = asyncio.create_task(_all(stream))
        await asyncio.sleep(0.01)
        server.close()
        with pytest.raises(ConnectionFailed):
            await waiting
        await transport.lost.wait()
        with pytest.raises(ConnectionFailed) as failure:
            await transport.send(Request("GET", "/version"))
        assert not failure.value.sent


async def test_a_reader_that_lags_too_far_behind_loses_its_stream(monkeypatch):
    monkeypatch.setattr(link_module, "_UNREAD", 100_000)
    async with linked() as (client, _, transport):
        stream = await transport.stream(Request("GET", "/api/v1/configmaps", {"watch": "true"}))
        for number in range(5):
            await client.create(CONFIG_MAPS, config_map(f"c-{number}", "x" * 50_000))
        with pytest.raises(ConnectionFailed, match="unread"):
            await _all(stream)
        # Others are served as before.
        assert await client.get(CONFIG_MAPS, "c-4", namespace="default")


async def _all(stream):
    return [piece async for piece in stream]
