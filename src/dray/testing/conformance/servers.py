"""Servers under test: dray's own in this process, or any other by its URL."""

from __future__ import annotations

import asyncio
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import msgspec

from dray.server.api_server import ApiServer
from dray.server.context import Context
from dray.server.requests import Request, Response, Stream
from dray.store.memory import MemoryStore

_SECONDS = 30


class Answer(NamedTuple):
    code: int
    body: bytes

    @property
    def document(self) -> Any:
        """Returns the body as JSON, or as text if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return self.body.decode(errors="replace")


class Server(Protocol):
    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Sends a request; `path` includes the query, `_` in a header name means `-`."""
        ...


def create(server: Server, path: str, document: Any) -> Answer:
    return server.ask("POST", path, msgspec.json.encode(document), content_type="application/json")


@dataclass(slots=True)
class InProcess:
    api: ApiServer = field(default_factory=lambda: ApiServer(Context(MemoryStore())))
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        return self.loop.run_until_complete(handled(self.api, method, path, body or b"", headers))

    def close(self) -> None:
        self.loop.run_until_complete(self.api.close())
        self.loop.close()


async def handled(api: ApiServer, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    parts = urlsplit(path)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = await api.handle(Request(method, unquote(parts.path), parts.query, named, body))
    if isinstance(answer, Stream):
        return Answer(200, b"".join([chunk async for chunk in answer.chunks]))
    assert isinstance(answer, Response)
    return Answer(answer.code, answer.body)


@dataclass(frozen=True, slots=True)
class OverHttp:
    """Tests a server at a URL; its certificate is not verified."""

    url: str
    token: str = ""

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-").title(): value for name, value in headers.items()}
        if self.token:
            named["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.url.rstrip("/") + path, data=body, method=method, headers=named)
        context = ssl._create_unverified_context() if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, context=context, timeout=_SECONDS) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read())
