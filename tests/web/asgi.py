"""Requests to the page without a network: what a browser would send, and what an attacker would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dray.server.application import Application
from dray.web.page import Page

HOST = "127.0.0.1:8100"
OWN = {"x-dray-page": "1", "sec-fetch-site": "same-origin"}
"""What the page itself sends."""


class Answer:
    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.ended = False
        self.arrived = asyncio.Event()

    def header(self, name: str) -> str:
        return next((value for each, value in self.headers if each == name), "")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        blocks = [block.split("\n") for block in self.body.decode().split("\n\n") if block.startswith("event: ")]
        return [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in blocks]

    async def until_event(self, number: int) -> list[tuple[str, Any]]:
        while len(self.events) < number and not self.ended:
            self.arrived.clear()
            await self.arrived.wait()
        return self.events


class Viewer:
    """A client with a cookie jar, which keeps the key of its session as the page does."""

    def __init__(self, page: Page | Application, *, scheme: str = "http", address: str = "127.0.0.1") -> None:
        self._page = page
        self._scheme = scheme
        self._address = address
        self.cookie = ""
        self.key = ""

    async def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        answer = Answer()
        gone = asyncio.Event()
        await self._run(method, path, body, headers, answer, gone)
        return answer

    async def sign_in(self, **credential: str) -> Answer:
        answer = await self.send("POST", "/ui/session", credential)
        self.cookie = answer.header("set-cookie").partition(";")[0]
        self.key = answer.json.get("key", "")
        return answer

    @asynccontextmanager
    async def stream(self, path: str, headers: dict[str, str] | None = None) -> AsyncIterator[Answer]:
        answer, gone = Answer(), asyncio.Event()
        task = asyncio.create_task(self._run("GET", path, None, headers, answer, gone))
        try:
            yield answer
        finally:
            gone.set()
            await task

    async def _run(
        self, method: str, path: str, body: Any, headers: dict[str, str] | None, answer: Answer, gone: asyncio.Event
    ) -> None:
        sent = {
            "host": HOST,
            **({"cookie": self.cookie, "x-dray-key": self.key} if self.cookie else {}),
            **(OWN if headers is None else headers),
        }
        pieces = [b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()]

        async def receive() -> dict[str, Any]:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(), "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = [(name.decode(), value.decode()) for name, value in message["headers"]]
            else:
                answer.body += message.get("body", b"")
            answer.arrived.set()

        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": self._scheme,
            "client": (self._address, 40000),
            "path": target,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
        await self._page(scope, receive, send)
        answer.ended = True
        answer.arrived.set()
