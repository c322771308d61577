"""The ASGI application: limits, headers, bodies, and callers from within."""

import asyncio
import json

import msgspec
import pytest

from dray.server.api_server import ApiServer
from dray.server.application import Application, Limits
from dray.server.context import Context
from dray.server.security.audit_log import AuditLog
from dray.store.memory import MemoryStore
from tests.server.api import MAPS, config_map


class Exchange:
    """One request to an ASGI application; `left` is when the client goes away."""

    def __init__(self, app, method, path, body=b"", query="", parts=None, **headers):
        named = {"host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 1234),
        }
        self.app = app
        self.parts = list(parts if parts is not None else [body])
        self.left = asyncio.Event()
        self.started = asyncio.Event()
        self.chunks = asyncio.Queue()
        self.complete = False

    async def receive(self):
        if self.parts:
            part = self.parts.pop(0)
            if part is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.code = message["status"]
            self.headers = [(name.decode(), value.decode()) for name, value in message["headers"]]
            self.started.set()
        else:
            await self.chunks.put(message.get("body", b""))
            self.complete = not message.get("more_body", False)

    async def run(self):
        await self.app(self.scope, self.receive, self.send)
        return self

    @property
    def body(self):
        return b"".join(self.chunks._queue)


def serving(story, **options):
    async def run():
        context = Context(MemoryStore())
        app = Application(ApiServer(context), **options)
        await app.server.start()
        try:
            async with asyncio.timeout(30):
                return await story(app)
        finally:
            await app.server.close()

    return asyncio.run(run())


def ask(*args, limits=None, **options):
    return serving(lambda app: Exchange(app, *args, **options).run(), **({"limits": limits} if limits else {}))


class TestBodies:
    body = msgspec.json.encode(config_map())

    def test_in_one_piece_or_many(self):
        pieces = [self.body[:5], b"", self.body[5:]]
        assert ask("POST", MAPS, parts=pieces, content_type="application/json").code == 201

    @pytest.mark.parametrize("headers", [{}, {"content_length": "100"}])
    def test_too_large(self, headers):
        done = ask("POST", MAPS, self.body, limits=Limits(body_bytes=10), **headers)
        assert (done.code, json.loads(done.body)["reason"]) == (413, "RequestEntityTooLarge")

    def test_too_slow(self):
        async def story(app):
            exchange = Exchange(app, "POST", MAPS)
            exchange.parts = []
            return await exchange.run()

        assert serving(story, limits=Limits(body_seconds=0.05)).code == 408

    def test_half_of_one_is_none(self):
        async def story(app):
            exchange = await Exchange(app, "DELETE", MAPS, parts=[b"", None]).run()
            assert not exchange.started.is_set()
            return app.server.context.store.revision

        serving(story)


class TestAnswers:
    def test_warnings_are_headers(self):
        done = ask("POST", MAPS, b'{"metadata":{"name":"m"},"no\\"nsense":1}', content_type="application/json")
        warnings = [value for name, value in done.headers if name == "warning"]
        assert warnings == ['299 - "unknown field \\"no\\"nsense\\""']

    def test_warnings_have_a_limit(self):
        body = {"metadata": {"name": "m"}, **{f"nonsense{number}" + "x" * 500: 1 for number in range(300)}}
        done = ask("POST", MAPS, json.dumps(body).encode(), content_type="application/json")
        warnings = [value for name, value in done.headers if name == "warning"]
        assert done.code == 201
        assert 10 < len(warnings) < 100
        assert sum(map(len, warnings)) < 6000

    def test_yaml_for_those_who_want_it(self):
        done = ask("GET", "/api/v1/namespaces/default", accept="application/yaml")
        assert dict(done.headers)["content-type"] == "application/yaml"
        assert b"kind: Namespace" in done.body

    def test_the_head_alone(self):
        done = ask("HEAD", "/api/v1/namespaces/default")
        assert (done.code, done.body) == (200, b"")
        assert int(dict(done.headers)["content-length"]) > 100

    def test_try_again_later(self):
        async def story(app):
            return await Exchange(app, "GET", MAPS, query="watch=1").run()

        done = serving(story, limits=Limits(open_watches=0))
        assert (done.code, json.loads(done.body)["reason"]) == (429, "TooManyRequests")
        assert dict(done.headers)["retry-after"] == "1"

    def test_a_foreign_page_gets_nothing(self):
        assert ask("GET", MAPS, host="evil.example.com").code == 403


class TestStreams:
    def test_end_when_the_client_leaves(self):
        async def story(app):
            exchange = Exchange(app, "GET", MAPS, query="watch=1")
            running = asyncio.ensure_future(exchange.run())
            await exchange.started.wait()
            await Exchange(app, "POST", MAPS, msgspec.json.encode(config_map()), content_type="application/json").run()
            await exchange.chunks.get()
            event = json.loads(await exchange.chunks.get())
            exchange.left.set()
            await running
            assert len(app._streams) == 0
            return event, exchange.complete

        event, complete = serving(story)
        assert (event["type"], complete) == ("ADDED", False)

    def test_end_in_good_order_when_the_server_stops(self):
        async def story(app):
            exchange = Exchange(app, "GET", MAPS, query="watch=1")
            running = asyncio.ensure_future(exchange.run())
            await exchange.started.wait()
            app.end_streams()
            await running
            return exchange.complete

        assert serving(story) is True

    def test_a_client_that_does_not_read_is_cut_off(self):
        cut = []

        async def story(app):
            exchange = Exchange(app, "GET", MAPS, query="watch=1")
            exchange.scope["state"] = {"dray.abort": lambda: cut.append(True)}
            send = exchange.send

            async def stuck(message):
                if message.get("body"):
                    await asyncio.Event().wait()
                await send(message)

            exchange.send = stuck
            running = asyncio.ensure_future(exchange.run())
            await exchange.started.wait()
            await Exchange(app, "POST", MAPS, msgspec.json.encode(config_map()), content_type="application/json").run()
            await running

        serving(story, limits=Limits(stalled_seconds=0.05))
        assert cut == [True]


def test_the_audit_log_knows_who_did_what(tmp_path):
    log = AuditLog(tmp_path / "audit.log")

    async def story(app):
        await Exchange(app, "POST", MAPS, msgspec.json.encode(config_map()), content_type="application/json").run()
        await Exchange(app, "GET", MAPS, query="watch=1&timeoutSeconds=1").run()
        await Exchange(app, "GET", MAPS, host="evil.example.com").run()

    serving(story, audit=log)
    log.close()
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert [(e["verb"], e["responseStatus"]["code"]) for e in events] == [("create", 201), ("watch", 200), ("get", 403)]
    assert events[0]["objectRef"]["resource"] == "configmaps"
