"""`/exec` and `/attach`: commands in a running container, and the streams of the container itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from dray.api.objects import Object
from dray.node.runtimes.interface import StartError, Streams
from dray.node.server.channels import PROTOCOLS, Channels, left, upgraded
from dray.node.server.found_pods import AGENT, running_container_of
from dray.node.server.spdy_streams import SPDY, SpdyStreams
from dray.process.tasks import end_tasks

_SUCCESS: Object = {"metadata": {}, "status": "Success"}


async def execute(request: web.Request) -> web.StreamResponse:
    _, _, container_id = running_container_of(request)
    runtime = request.app[AGENT].runtime
    command = request.query.getall("command", [])
    if not command:
        raise web.HTTPBadRequest(text="you must specify at least one command for execution")
    tty, stdin = _is_set(request, "tty"), _is_set(request, "input")

    async def work(streams: Streams) -> Object:
        try:
            code = await runtime.exec(container_id, command, streams, tty=tty, stdin=stdin)
        except StartError as error:
            return _failure(f"error executing command in container: {error}")
        return _exited(code)

    return await _serve(request, work)


async def attach(request: web.Request) -> web.StreamResponse:
    _, record, container_id = running_container_of(request)
    runtime = request.app[AGENT].runtime
    stdin = _is_set(request, "input") and bool(record.spec.get("stdin"))

    async def work(streams: Streams) -> Object:
        try:
            await runtime.attach(container_id, streams, stdin=stdin)
        except StartError as error:
            return _failure(f"error attaching to container: {error}")
        return _SUCCESS

    return await _serve(request, work)


class _Streams(Streams, Protocol):
    """Streams of a client: `receive` returns when it leaves, `opened` when it has opened all requested streams."""

    async def receive(self) -> None: ...

    async def opened(self) -> None: ...

    async def finish(self, status: Object) -> None: ...


async def _serve(request: web.Request, work: Callable[[Streams], Awaitable[Object]]) -> web.StreamResponse:
    """Runs the work until it is done or the client leaves, which cancels the work."""
    socket = await upgraded(request, (*PROTOCOLS, SPDY))
    wanted = frozenset(name for name in ("input", "output", "error", "tty") if _is_set(request, name))
    streams: _Streams = SpdyStreams(socket, wanted) if socket.ws_protocol == SPDY else Channels(socket, wanted)

    async def run() -> Object:
        await streams.opened()
        return await work(streams)

    receiving, working = asyncio.ensure_future(streams.receive()), asyncio.ensure_future(run())
    leaving = asyncio.ensure_future(left(socket))
    try:
        await asyncio.wait((receiving, working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            with contextlib.suppress(ConnectionError):
                await streams.finish(_outcome(working))
    finally:
        await end_tasks((receiving, working, leaving))
    with contextlib.suppress(ConnectionError):
        await socket.close()
    return socket


def _outcome(working: asyncio.Future[Object]) -> Object:
    error = working.exception()
    return working.result() if error is None else _failure(f"{type(error).__name__}: {error}")


def _is_set(request: web.Request, name: str) -> bool:
    return request.query.get(name, "") in ("1", "true")


def _exited(code: int) -> Object:
    if code == 0:
        return _SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failure(message: str) -> Object:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }
