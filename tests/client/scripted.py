"""A server that says what it was told to say, over a real socket or without one, and keeps what it heard."""

import asyncio
import contextlib
import functools
from collections import deque
from dataclasses import dataclass, field
from urllib.parse import unquote

import msgspec
from aiohttp import web

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.errors import ConnectionFailed
from dray.client.http import HttpTransport
from dray.client.retries import Retries
from dray.client.transport import Answer


@dataclass
class Heard:
    method: str
    path: str
    query: dict
    headers: dict
    body: bytes

    @property
    def document(self):
        return msgspec.json.decode(self.body)


@dataclass
class Say:
    """An answer: a document, or raw bytes."""

    document: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    raw: bytes | None = None
    after: float = 0
    """Seconds before it comes, by HTTP."""

    @property
    def body(self):
        return msgspec.json.encode(self.document) if self.raw is None else self.raw


@dataclass
class Stream:
    """Pieces of an answer, how it ends (`end`, `drop` (broken off) or `hang`), and how long after the last piece."""

    pieces: list
    then: str = "end"
    after: float = 0


class Drop:
    """No answer at all."""


def event(kind, body):
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def claim(name, version, *, namespace="default", uid=None, **rest):
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "ResourceClaim", "metadata": metadata, **rest}


def bookmark(version):
    return event("BOOKMARK", {"kind": "ResourceClaim", "metadata": {"resourceVersion": str(version)}})


def refusal(status, reason, message="no", **details):
    return {"kind": "Status", "code": status, "reason": reason, "message": message, "details": details}


class Script:
    """Answers in turn; `lists` and `watches`, where given, come before `answers`."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.watches = deque()
        self.heard = []
        self.hanging = 0
        self.slept = []

    def next(self, heard):
        self.heard.append(heard)
        turn = self.watches if "watch" in heard.query and self.watches else self.answers
        if not turn:
            return Say(refusal(404, "NotFound", "the script is over"), 404)
        return turn.popleft()

    async def pieces(self, stream):
        for piece in stream.pieces:
            yield piece
            await asyncio.sleep(0.005)
        await asyncio.sleep(stream.after)
        if stream.then == "hang":
            self.hanging += 1
            try:
                await asyncio.sleep(60)
            finally:
                self.hanging -= 1

    async def sleep(self, seconds):
        self.slept.append(seconds)
        await asyncio.sleep(0)

    @property
    def retries(self):
        return Retries(sleep=self.sleep, random=lambda: 0.0)


async def answer_http(script, request):
    heard = Heard(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
    heard.headers = {name.lower(): value for name, value in heard.headers.items()}
    turn = script.next(heard)
    if isinstance(turn, Say):
        await asyncio.sleep(turn.after)
        return web.Response(status=turn.status, headers=turn.headers, body=turn.body)
    if isinstance(turn, Drop):
        request.transport.abort()
        return web.Response()
    response = web.StreamResponse()
    await response.prepare(request)
    async for piece in script.pieces(turn):
        await response.write(piece)
    if turn.then == "drop":
        request.transport.abort()
    return response


class ScriptedTransport:
    """The script without a socket."""

    watch_seconds = 600

    def __init__(self, script):
        self._script = script

    async def send(self, request):
        stream = await self.stream(request)
        return Answer(stream.status, stream.headers, b"".join([piece async for piece in stream]))

    async def stream(self, request):
        path, query = unquote(request.path), dict(request.query)
        turn = self._script.next(Heard(request.method, path, query, dict(request.headers), request.body))
        if isinstance(turn, Drop):
            raise ConnectionFailed("left unanswered", sent=True)
        return ScriptedStream(self._script, turn)

    async def close(self):
        pass


class ScriptedStream:
    def __init__(self, script, turn):
        said = turn if isinstance(turn, Say) else Say()
        self.status, self.headers = said.status, {name.lower(): value for name, value in said.headers.items()}
        self._pieces = _whole(turn) if isinstance(turn, Say) else script.pieces(turn)
        self._broken = getattr(turn, "then", "end") == "drop"

    async def __aiter__(self):
        async for piece in self._pieces:
            yield piece
        if self._broken:
            raise ConnectionFailed("broke off", sent=True)

    async def close(self):
        await self._pieces.aclose()


async def _whole(said):
    yield said.body


@contextlib.asynccontextmanager
async def serving(script, *, ssl=None):
    """The address of a real server."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", functools.partial(answer_http, script))
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if ssl else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def client_of(way, script, **options):
    """A client of the script, by HTTP or without a socket."""
    if way == "direct":
        async with ApiClient(ScriptedTransport(script), retries=script.retries) as client:
            yield client
        return
    async with serving(script) as address:
        transport = HttpTransport(Endpoint(address), **options)
        async with ApiClient(transport, retries=script.retries) as client:
            yield client
