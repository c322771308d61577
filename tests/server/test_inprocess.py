import asyncio

import msgspec
import pytest

from dray.client.errors import ConnectionFailed
from dray.client.transport import Request
from dray.server.api_server import ApiServer
from dray.server.application import Application, Limits
from dray.server.authorization import AUTHENTICATED, User
from dray.server.context import Context
from dray.server.inprocess import InProcessStream, InProcessTransport
from dray.server.requests import Request as ServerRequest
from dray.server.requests import Stream
from dray.server.security.audit_log import AuditLog
from dray.store.memory import MemoryStore

MAPS = "/api/v1/namespaces/default/configmaps"
HEADERS = {"accept": "application/json", "content-type": "application/json"}


async def started(user=None, **options):
    server = ApiServer(Context(MemoryStore()))
    await server.start()
    application = Application(server, **options)
    return InProcessTransport(application) if user is None else InProcessTransport(application, user)


def named(name):
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "nosuch": 1})


async def test_requests_are_answered_as_over_http():
    transport = await started()
    answer = await transport.send(Request("POST", MAPS, {"fieldValidation": "Warn"}, HEADERS, named("system.x")))
    assert (answer.status, answer.headers["warning"]) == (201, '299 - "unknown field \\"nosuch\\""')
    answer = await transport.send(Request("GET", f"{MAPS}/system%2Ex", {}, HEADERS))
    assert msgspec.json.decode(answer.body)["metadata"]["name"] == "system.x"
    assert (await transport.send(Request("GET", f"{MAPS}/none", {}, HEADERS))).status == 404


async def test_callers_have_the_rights_of_their_user_and_no_more():
    transport = await started(User("joe", (AUTHENTICATED,)))
    assert (await transport.send(Request("GET", MAPS, {}, HEADERS))).status == 403


async def test_bodies_have_a_limit():
    transport = await started(limits=Limits(body_bytes=10))
    assert (await transport.send(Request("POST", MAPS, {}, HEADERS, named("a")))).status == 413


async def test_the_audit_log_knows_of_them(tmp_path):
    log = AuditLog(tmp_path / "audit.log")
    transport = await started(audit=log)
    await transport.send(Request("POST", MAPS, {}, HEADERS, named("a")))
    log.close()
    (event,) = map(msgspec.json.decode, (tmp_path / "audit.log").read_bytes().splitlines())
    assert (event["verb"], event["responseStatus"]["code"]) == ("create", 201)


async def test_a_watch_is_read_as_it_comes_and_ends_when_it_is_closed():
    transport = await started()
    watch = Request("GET", MAPS, {"watch": "true", "resourceVersion": "1"}, HEADERS)
    stream = await transport.stream(watch)
    assert stream.status == 200
    pieces = aiter(stream)
    reading = asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)
    await transport.send(Request("POST", MAPS, {}, HEADERS, named("a")))
    assert msgspec.json.decode(await reading)["object"]["metadata"]["name"] == "a"
    await pieces.aclose()
    await stream.close()
    refused = await transport.stream(Request("GET", MAPS, {"watch": "true", "resourceVersion": "x"}, HEADERS))
    assert (refused.status, [msgspec.json.decode(piece)["code"] async for piece in refused]) == (400, [400])


async def test_a_watch_that_fails_breaks_off(caplog):
    async def chunks():
        yield b"x"
        raise ZeroDivisionError

    stream = InProcessStream(ServerRequest("GET", "/"), Stream(chunks()))
    with pytest.raises(ConnectionFailed):
        _ = [piece async for piece in stream]
    assert [record for record in caplog.records if record.exc_info]


async def test_others_have_their_turn_while_a_long_list_is_made():
    transport = await started()
    for number in range(20):
        body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 100_000}}
        await transport.send(Request("POST", MAPS, {}, HEADERS, msgspec.json.encode(body)))
    turns = 0

    async def others():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(others())
    accept = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    for headers in (HEADERS, accept):
        turns = 0
        answer = await transport.send(Request("GET", MAPS, {}, headers))
        assert len(msgspec.json.decode(answer.body)["items"]) == 20
        assert turns >= 10
    task.cancel()
