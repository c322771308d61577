import asyncio

import pytest

from dray.client.errors import ConnectionFailed
from dray.client.inprocess import InProcessTransport
from dray.client.transport import Request


async def test_the_application_sees_a_request():
    scopes = []

    async def application(scope, receive, send):
        scopes.append(scope)
        assert (await receive()) == {"type": "http.request", "body": b"body", "more_body": False}
        await send({"type": "http.response.start", "status": 201, "headers": [(b"X-One", b"1"), (b"x-one", b"2")]})
        await send({"type": "http.response.body", "body": b"an", "more_body": True})
        await send({"type": "http.response.body", "body": b"swer"})

    transport = InProcessTransport(application, headers={"x-who": "me"}, extensions={"dray.user": {"name": "me"}})
    request = Request("PUT", "/api/v1/nodes/system%3Ax", {"a": "b c", "d": "ü&"}, {"accept": "x"}, b"body")
    answer = await transport.send(request)
    assert (answer.status, answer.headers, answer.body) == (201, {"x-one": "1, 2"}, b"answer")
    scope = scopes[0]
    assert (scope["type"], scope["method"]) == ("http", "PUT")
    assert (scope["path"], scope["raw_path"]) == ("/api/v1/nodes/system:x", b"/api/v1/nodes/system%3Ax")
    assert scope["query_string"] == b"a=b+c&d=%C3%BC%26"
    assert scope["headers"] == [(b"x-who", b"me"), (b"accept", b"x")]
    assert scope["extensions"] == {"dray.user": {"name": "me"}}


async def test_a_failing_application_is_a_server_error(caplog):
    async def application(scope, receive, send):
        raise ZeroDivisionError

    transport = InProcessTransport(application)
    assert (await transport.send(Request("GET", "/"))).status == 500
    with pytest.raises(ConnectionFailed):
        await transport.stream(Request("GET", "/"))
    assert len([record for record in caplog.records if record.exc_info]) == 2


async def test_an_application_that_fails_midway_breaks_the_stream():
    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        raise ZeroDivisionError

    stream = await InProcessTransport(application).stream(Request("GET", "/"))
    with pytest.raises(ConnectionFailed):
        _ = [piece async for piece in stream]


async def test_a_slow_reader_holds_the_application_back():
    sent = 0

    async def application(scope, receive, send):
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent += 1

    transport = InProcessTransport(application)
    stream = await transport.stream(Request("GET", "/"))
    pieces = aiter(stream)
    for _ in range(10):
        await anext(pieces)
    await asyncio.sleep(0.01)
    assert sent < 100
    await transport.close()


async def test_closing_tells_the_application_and_the_reader():
    told = []

    async def application(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200})
        try:
            told.append(await receive())
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    transport = InProcessTransport(application)
    stream = await transport.stream(Request("GET", "/"))
    reader = asyncio.ensure_future(anext(aiter(stream)))
    await asyncio.sleep(0)
    await transport.close()
    with pytest.raises(ConnectionFailed):
        await reader
    assert told == ["cancelled"]
