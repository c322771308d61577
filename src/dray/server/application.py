"""The ASGI application: HTTP in, HTTP out, with limits on what a client may cost.

A request is read up to a limit of bytes and time, handed to the server, and its answer sent. Clients in the process
(inprocess.py) call `answer` with a request that names its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from dray.server import auditing, compression, status
from dray.server.api_server import ApiServer, refused
from dray.server.authorization import ANONYMOUS
from dray.server.flow_control.controller import LEVEL_HEADER, SCHEMA_HEADER
from dray.server.flow_control.schemas import flow_of
from dray.server.http_protocol import abort_of, be_patient, recognise, take_of
from dray.server.kubelets.upgrades import VERSIONS
from dray.server.requests import JSON, Answer, Request, Response, Stream, Upgrade, code_of
from dray.server.security.audit_log import AuditLog
from dray.server.security.guard import Caller
from dray.server.streams import IDLE_SECONDS, Headers, Message, Receive, Scope, Send, Streams, Tunnels, warning_headers
from dray.server.worker import AT_ONCE


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes: int = 3 * 1024 * 1024
    # Timeout for the body of a request.
    body_seconds: float = 60.0
    open_watches: int = 10_000
    # Lists and the like that are being sent.
    long_answers: int = 200
    # Logs, exec and port-forward.
    node_streams: int = 2000
    # Timeout for a client that does not read.
    stalled_seconds: float = 60.0


class Mounted(Protocol):
    """An ASGI application mounted under a path; it authenticates and authorizes by itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def end_streams(self) -> None: ...


class _Gone(Exception):
    """Raised if the client left before it had sent its request."""


_LONGEST_NAME = 200
_CONTENT_JSON = (b"content-type", b"application/json")


class Application:
    def __init__(self, server: ApiServer, *, limits: Limits | None = None, audit: AuditLog | None = None) -> None:
        self.server = server
        self.limits = limits or Limits()
        self._guard = server.context.security.guard
        self._auditor = auditing.Auditor(audit) if audit is not None else None
        self._streams = Streams(stalled_seconds=self.limits.stalled_seconds)
        self._long_answers = Streams(stalled_seconds=self.limits.stalled_seconds)
        self._tunnels = Tunnels()
        self._mounted: dict[str, Mounted] = {}
        self._node_streams = Streams(stalled_seconds=IDLE_SECONDS)
        server.metrics.count_watches(lambda: len(self._streams))
        if audit is not None:
            server.metrics.count_dropped_audit_events(lambda: audit.dropped)

    def end_streams(self) -> None:
        self._streams.end()
        self._long_answers.end()
        self._node_streams.end()
        self._tunnels.end()
        for mounted in self._mounted.values():
            mounted.end_streams()

    def mount(self, prefix: str, mounted: Mounted) -> None:
        """Passes requests for the prefix and everything below it to another application."""
        self._mounted[prefix] = mounted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # `OPTIONS *` has a path without a slash.
            mounted = self._mounted.get("/" + scope["path"].removeprefix("/").partition("/")[0])
            await (mounted or self._http)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1011})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            starting = message["type"] == "lifespan.startup"
            try:
                await (self.server.start() if starting else self.server.close())
            except Exception as error:
                await send({"type": f"{message['type']}.failed", "message": str(error)})
                return
            await send({"type": f"{message['type']}.complete"})
            if not starting:
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = self._now()
        request = Request(scope["method"], scope["path"], scope["query_string"].decode("latin-1"))
        if (task := asyncio.current_task()) is not None:
            # Shows up in reports about a blocked event loop.
            task.set_name(f"{request.method} {request.path[:_LONGEST_NAME]}")
        caller: Caller | None = None
        try:
            request.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            caller = self._guard.admit(scope)
            request.user = caller.user
            if caller.sender is not ANONYMOUS:
                recognise(scope)
            if VERSIONS in request.headers:
                request.headers = {**request.headers, VERSIONS: _all_versions(scope)}
            if request.method not in ("GET", "HEAD"):
                request.body = await self._body(request, receive)
            answer = await self._in_turn(request)
            await self._check_room(answer)
        except status.ApiError as error:
            answer = await self.server.written(request, refused(error))
        except _Gone:
            return
        self._audit(request, caller, answer, received, _source(scope))
        if isinstance(answer, Upgrade):
            await self._tunnel(answer, scope)
            return
        if isinstance(answer, Response):
            if answer.rest is None or not _in_pieces(scope, request):
                await self._respond(answer, request, send)
                return
            pieces = answer.pieces()
            if compression.applies(request, answer):
                pieces = compression.pieces(pieces)
                request.told = {**request.told, **compression.HEADERS}
            answer, streams = Stream(pieces, endless=False), self._long_answers
        else:
            streams = self._node_streams if answer.from_node else self._streams
            if answer.from_node:
                # A client may read a page of a log for long; the log is not read further meanwhile.
                be_patient(scope)
        headers = [_content_type(answer.content_type), *_encoded(request.told), *warning_headers(request.warnings)]
        if answer.encoding:
            headers.append((b"content-encoding", answer.encoding.encode("latin-1")))
        await streams.run(answer, headers, receive, send, abort_of(scope))

    async def _in_turn(self, request: Request) -> Answer:
        """Returns the answer; waits for a seat of the request's priority level."""
        flow = flow_of(request)
        found = self.server.flow_control.classify(flow)
        if found is None:
            return await self.server.handle(request)
        schema, level = found
        request.told = {SCHEMA_HEADER: schema.uid, LEVEL_HEADER: level.uid}
        await level.enter(schema.distinguished(flow))
        try:
            return await self.server.handle(request)
        finally:
            level.leave()

    async def _tunnel(self, upgrade: Upgrade, scope: Scope) -> None:
        take = take_of(scope)
        if take is None:
            await upgrade.node.close()
        else:
            await self._tunnels.run(upgrade, take())

    async def answer(self, request: Request) -> Response | Stream:
        """Answers a caller in this process; the request names its user."""
        received = self._now()
        if len(request.body) > self.limits.body_bytes:
            answer: Answer = refused(status.too_large(self.limits.body_bytes))
        else:
            answer = await self.server.handle(request)
        if isinstance(answer, Upgrade):
            await answer.node.close()
            answer = refused(status.bad_request("a caller in the process has no connection that could be upgraded"))
        self._audit(request, Caller(request.user, request.user), answer, received, "")
        return answer

    def _now(self) -> str:
        return auditing.now() if self._auditor is not None else ""

    def _audit(self, request: Request, caller: Caller | None, answer: Answer, received: str, source: str) -> None:
        if self._auditor is not None:
            self._auditor.note(request, caller, code_of(answer), received, source)

    async def _check_room(self, answer: Answer) -> None:
        if isinstance(answer, Upgrade) or (isinstance(answer, Stream) and answer.from_node):
            if len(self._node_streams) + len(self._tunnels) >= self.limits.node_streams:
                await (answer.node.close() if isinstance(answer, Upgrade) else answer.chunks.aclose())
                raise status.too_many_requests("too many streams to nodes are open")
        elif not isinstance(answer, Response):
            if len(self._streams) >= self.limits.open_watches:
                raise status.too_many_requests("too many open watches")
        elif answer.rest is not None and len(self._long_answers) >= self.limits.long_answers:
            raise status.too_many_requests("too many long answers that are not read yet, please try again later")

    async def _respond(self, answer: Response, request: Request, send: Send) -> None:
        if answer.rest is not None:
            try:
                await self.server.context.worker.run(AT_ONCE + 1, answer.whole)
            except status.ApiError as error:
                answer = refused(error)
        if compression.applies(request, answer):
            # Sent uncompressed if the worker is overloaded.
            with suppress(status.ApiError):
                worker = self.server.context.worker
                answer.body = await worker.run(len(answer.body), compression.compressed, answer.body)
                answer.headers |= compression.HEADERS
        body = answer.body
        # A 304 has no body and no content type.
        headers: Headers = [] if answer.code == 304 else [_content_type(answer.content_type), _length(body)]
        if answer.headers or request.told:
            headers += _encoded({**request.told, **answer.headers})
        if request.warnings:
            headers += warning_headers(request.warnings)
        await send({"type": "http.response.start", "status": answer.code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})

    async def _body(self, request: Request, receive: Receive) -> bytes:
        limit = self.limits.body_bytes
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise status.too_large(limit)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                return await _read(receive, limit)
        except TimeoutError:
            raise status.ApiError(408, "Timeout", "the body of the request did not arrive in time") from None


def _encoded(told: Mapping[str, str]) -> Headers:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in told.items()]


async def _read(receive: Receive, limit: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part, more = message.get("body", b""), message.get("more_body", False)
        size += len(part)
        if size > limit:
            raise status.too_large(limit)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _content_type(content_type: str) -> tuple[bytes, bytes]:
    return _CONTENT_JSON if content_type == JSON else (b"content-type", content_type.encode())


def _length(body: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(body)


def _all_versions(scope: Scope) -> str:
    """Joins the values of the header that clients repeat for each protocol version that they support."""
    return ", ".join(value.decode("latin-1") for name, value in scope["headers"] if name == VERSIONS.encode())


def _source(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _in_pieces(scope: Scope, request: Request) -> bool:
    """Returns True if the answer can be sent in pieces."""
    return request.method != "HEAD" and scope.get("http_version") != "1.0"
