"""A real uvicorn with real TLS on loopback, whose application answers who the caller is."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from dray.server.security.guard import Guard
from dray.server.security.peer_protocol import PeerProtocol
from dray.server.security.users import user_info
from dray.server.status import ApiError


class WhoAmI:
    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        try:
            caller = self.guard.admit(scope)
            code, body = 200, {**user_info(caller.user), "sender": caller.sender.name}
        except ApiError as error:
            code, body = error.code, error.document
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


@contextmanager
def serve(guard: Guard, context: ssl.SSLContext | None, *, loop: str = "uvloop") -> Iterator[int]:
    """The port."""
    config = uvicorn.Config(
        WhoAmI(guard),
        port=0,
        http=PeerProtocol,
        loop=loop,
        ws="none",
        lifespan="off",
        log_level="critical",
        ssl_context_factory=None if context is None else lambda config, default: context,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def ask(
    port: int, context: ssl.SSLContext | None, path: str = "/api/v1/pods", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"{}")
    finally:
        connection.close()
