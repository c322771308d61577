"""Connections that die without a word, behind a proxy that still takes what it is sent."""

import asyncio
import contextlib
import time

from dray.client.api import ApiClient
from dray.client.election import LeaderElection
from dray.client.endpoint import Endpoint
from dray.client.http import HttpTransport
from dray.client.informer import Informer
from dray.client.interface import GroupVersionResource
from dray.client.transport import Request
from dray.client.watching import Watching
from tests.server.process import listening

from .proxy import Proxy
from .scripted import Say, Script, Stream, bookmark, serving

MAPS = GroupVersionResource("", "v1", "configmaps")
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


@contextlib.asynccontextmanager
async def behind_proxy(**options):
    """A server, a proxy before it, a client that goes through the proxy and one that does not."""
    with listening() as server:
        proxy = Proxy(server.url)
        async with proxy.serving() as url:
            transport = HttpTransport(Endpoint(url), **options)
            async with ApiClient(transport) as client, ApiClient(HttpTransport(Endpoint(server.url))) as straight:
                yield proxy, client, straight


async def until(holds, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_silent_watch_is_opened_again_from_where_it_was():
    async with behind_proxy(silence=1.0) as (proxy, client, straight):
        informer = Informer(client, MAPS, namespace="default")
        changes = []
        informer.add_handler(lambda change: changes.append((change.type, change.key[1])))
        task = asyncio.create_task(informer.run())
        await informer.synced()
        await straight.create(MAPS, config_map("before"))
        await until(lambda: ("ADDED", "before") in changes)
        proxy.silence()
        await straight.create(MAPS, config_map("meanwhile"))
        await until(lambda: ("ADDED", "meanwhile") in changes)
        assert [name for _, name in changes].count("before") == 1
        task.cancel()


async def test_requests_on_silent_connections_are_sent_again_on_new_ones():
    """All that were kept open are dead, not just the first that is tried."""
    async with behind_proxy(silence=1.0) as (proxy, client, _):
        await asyncio.gather(*(client.list(MAPS, namespace="default") for _ in range(8)))
        assert proxy.connections > 1
        proxy.silence()
        began = time.monotonic()
        await client.list(MAPS, namespace="default")
        # One connection is waited for, not eight.
        assert 0.9 < time.monotonic() - began < 7


async def test_a_write_on_a_silent_connection_fails_in_time_and_the_next_one_works():
    async with behind_proxy(silence=1.0) as (proxy, client, _):
        await asyncio.gather(*(client.list(MAPS, namespace="default") for _ in range(8)))
        proxy.silence()
        began = time.monotonic()
        with contextlib.suppress(Exception):
            await client.create(MAPS, config_map("a"))
        await client.create(MAPS, config_map("b"))
        assert time.monotonic() - began < 7


async def test_a_lease_is_kept_over_a_silent_connection():
    async with behind_proxy(timeout=0.5, connections=1) as (proxy, client, straight):
        election = LeaderElection(
            client, "kube-system", "x", "me", lease_seconds=15, renew_deadline=12, retry_period=0.1
        )
        leads = asyncio.Event()

        async def work():
            leads.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(election.lead(work))
        await leads.wait()
        proxy.silence()

        async def renewed():
            return (await straight.get(LEASES, "x", namespace="kube-system"))["spec"]["renewTime"]

        before = await renewed()
        async with asyncio.timeout(30):
            while await renewed() == before:
                await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])


async def test_silence_is_noticed_within_half_a_minute():
    async with contextlib.AsyncExitStack() as stack:
        script = Script(Stream([bookmark(7)], "hang"))
        transport = HttpTransport(Endpoint(await stack.enter_async_context(serving(script))))
        stack.push_async_callback(transport.close)
        asked = []
        stream = transport.stream

        async def listen(request):
            asked.append(request)
            return await stream(request)

        transport.stream = listen
        events = Watching(transport, script.retries, "/x", {}, "1").events()
        await anext(events)
        await events.aclose()
        (request,) = asked
        assert int(request.query["timeoutSeconds"]) < request.silence <= 28
        assert transport._writing.total <= 28
        assert transport._reading.sock_read <= 28


async def test_a_watch_of_what_does_not_change_ends_and_begins_without_a_pause():
    """Servers that know no bookmarks end a watch without a word."""
    script = Script(*[Stream([], after=1.0)] * 2, Stream([bookmark(7)], "hang"))
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address), silence=1.0)
        events = Watching(transport, script.retries, "/x", {}, "1").events()
        await anext(events)
        await events.aclose()
        await transport.close()
    assert script.slept == []


async def test_waiting_for_a_connection_is_not_silence():
    script = Script(*[Say({}, after=0.5)] * 5)
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address), timeout=2.0, silence=2.0, connections=1)
        answers = await asyncio.gather(*(transport.send(Request("POST", "/", body=b"{}")) for _ in range(5)))
        assert [answer.status for answer in answers] == [200] * 5
        await transport.close()
