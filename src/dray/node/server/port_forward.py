"""`/portForward/{namespace}/{pod}`: connections to ports of a pod, over WebSocket.

kubectl carries SPDY in the messages of a WebSocket: for each local connection it opens two streams with the same
`requestid`, one for data and one for what went wrong. Other clients use `v4.channel.k8s.io`, with two channels for each
port that the query names; each channel begins with the number of its port.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final

from aiohttp import web

from dray.api.objects import uid_of
from dray.node.pod_worker import PodWorker
from dray.node.runtimes.interface import Runtime, StartError
from dray.node.server.channels import messages, upgraded
from dray.node.server.found_pods import AGENT, pod_of
from dray.node.server.port_channels import PortChannels
from dray.node.server.spdy.connection import Connection, Stream
from dray.node.server.spdy.headers import ProtocolError
from dray.process.tasks import end_tasks

_TUNNELLED: Final = "SPDY/3.1+portforward.k8s.io"
_CHANNELS: Final = "v4.channel.k8s.io"
_CHUNK: Final = 32 * 1024
_MOST_PORTS: Final = 100
# Timeout for the second stream of a pair, as in a kubelet.
_PAIR_SECONDS: Final = 30.0
_MOST_WAITING: Final = 64


async def port_forward(request: web.Request) -> web.StreamResponse:
    worker = pod_of(request)
    if not worker.state.sandbox or worker.state.ended:
        raise web.HTTPNotFound(text=f'pod "{request.match_info["pod"]}" is not running')
    ports = _ports(request)
    socket = await upgraded(request, (_TUNNELLED, _CHANNELS))
    forwarding = PortForwarding(request.app[AGENT].runtime, worker)
    if socket.ws_protocol == _CHANNELS:
        await PortChannels(socket, ports, forwarding.copy).run()
    else:
        await forwarding.run(socket)
    with contextlib.suppress(ConnectionError):
        await socket.close()
    return socket


def _ports(request: web.Request) -> list[int]:
    try:
        found = [int(port) for port in request.query.getall("port", [])]
    except ValueError:
        found = [0]
    if not all(0 < port < 65536 for port in found) or len(found) > _MOST_PORTS:
        raise web.HTTPBadRequest(text=f"a port is a number from 1 to 65535, with at most {_MOST_PORTS} ports at once")
    return found


class PortForwarding:
    def __init__(self, runtime: Runtime, worker: PodWorker) -> None:
        self._runtime = runtime
        self._worker = worker
        self.waiting: dict[str, tuple[Stream, asyncio.TimerHandle]] = {}
        """Streams that wait for the other stream of their pair, by request id; each with the timer that resets it."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, socket: web.WebSocketResponse) -> None:
        await self.serve(Connection(socket.send_bytes, self._opened, self._was_reset), messages(socket))

    async def serve(self, connection: Connection, received: AsyncIterator[bytes]) -> None:
        self._connection = connection
        try:
            with contextlib.suppress(ProtocolError, ConnectionError):
                await connection.run(received)
        finally:
            for _, timer in self.waiting.values():
                timer.cancel()
            self.waiting.clear()
            await end_tasks(self._tasks)

    def _opened(self, stream: Stream) -> None:
        other = self._paired(_request(stream))
        if other is not None:
            pair = (stream, other) if stream.headers.get("streamtype") == "data" else (other, stream)
            self._start(self._forward(*pair))
        elif len(self.waiting) >= _MOST_WAITING:
            self._start(self._connection.reset(stream))
        else:
            timer = asyncio.get_running_loop().call_later(_PAIR_SECONDS, self._give_up, stream)
            self.waiting[_request(stream)] = stream, timer

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _paired(self, request: str) -> Stream | None:
        """Returns the waiting stream of the request, and stops its timeout."""
        stream, timer = self.waiting.pop(request, (None, None))
        if timer is not None:
            timer.cancel()
        return stream

    def _was_reset(self, stream: Stream) -> None:
        if self.waiting.get(_request(stream), (None,))[0] is stream:
            self._paired(_request(stream))

    def _give_up(self, stream: Stream) -> None:
        """Resets a stream whose pair did not arrive in time."""
        self._was_reset(stream)
        self._start(self._connection.reset(stream))

    async def _forward(self, data: Stream, errors: Stream) -> None:
        resets = [asyncio.ensure_future(stream.reset.wait()) for stream in (data, errors)]
        copying = asyncio.ensure_future(self._forward_to_end(data, errors))
        try:
            await asyncio.wait((copying, *resets), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks((copying, *resets))
            self._connection.forget(data, errors)

    async def _forward_to_end(self, data: Stream, errors: Stream) -> None:
        text = data.headers.get("port", "")
        port = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
        problem = await self.copy(port, data.read, data.write)
        await data.finish()
        if problem:
            await errors.write(problem.encode())
        await errors.finish()

    async def copy(
        self, port: int, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]
    ) -> str:
        """Copies data between a client and a port until the pod closes it. Returns what went wrong, or ""."""
        name = self._worker.pod["metadata"]["name"]
        where = f"error forwarding port {port} to pod {name}, uid {uid_of(self._worker.pod)}"
        try:
            reader, writer = await self._runtime.connect(uid_of(self._worker.pod), port)
        except (OSError, StartError, OverflowError) as error:
            return f"{where}: failed to connect to localhost:{port} inside the pod: {error}"
        sending = asyncio.ensure_future(_send(read, writer))
        try:
            while data := await reader.read(_CHUNK):
                await write(data)
        except ConnectionError as error:
            return f"{where}: {error}"
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return ""


def _request(stream: Stream) -> str:
    return stream.headers.get("requestid", "")


async def _send(read: Callable[[], Awaitable[bytes]], writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await read():
            writer.write(data)
            await writer.drain()
        writer.write_eof()
