"""One HTTP exchange of the page: the request with its bounded body, the answer, and the headers that protect both.

Every answer forbids scripts and styles that are not files of the page, frames, and guesses about content types. What
reads or changes something must come from the page itself: it has the header `X-Dray-Page`, which no page of another
origin can send without asking first, and the browser's own word on where it comes from must not say otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from dray.api.objects import Object

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_COOKIE: Final = "dray_session"
_MOST_COOKIES: Final = 16
"""The maximum number of cookies of one name: pages at other ports and paths of the host can add some."""
_MOST_BODY: Final = 1024 * 1024
_BODY_SECONDS: Final = 30.0
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PROTECTION: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
Headers = list[tuple[bytes, bytes]]


class Refusal(Exception):
    """Ends an exchange with a status and a text for the viewer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Exchange:
    def __init__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._receive = receive
        self._send = send
        self._headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]

    def header(self, name: str) -> str | None:
        """Raises Refusal if the request has the header more than once."""
        found = [value for each, value in self._headers if each == name.encode()]
        if len(found) > 1:
            raise Refusal(400, f"the request has the header {name} more than once")
        return found[0] if found else None

    @property
    def address(self) -> str:
        """The network address of the client."""
        return str((self.scope.get("client") or ("",))[0])

    @property
    def cookie_name(self) -> str:
        """Has the port, because a browser has one jar for all ports of a host. Raises Refusal."""
        try:
            port = urlsplit(f"//{self.header('host')}").port
        except ValueError:
            raise Refusal(400, "the Host header has no valid port") from None
        return f"{_COOKIE}_{port}" if port else _COOKIE

    @property
    def cookies(self) -> list[str]:
        """The values of the cookies of this page, the first few. Browsers may send several of these headers."""
        sent = [pair for name, value in self._headers if name == b"cookie" for pair in value.split(";")]
        named = [pair.strip().partition("=") for pair in sent]
        return [value for name, _, value in named if name == self.cookie_name][:_MOST_COOKIES]

    def check_origin(self) -> None:
        """Raises Refusal unless the page itself sent the request."""
        site, origin = self.header("sec-fetch-site"), self.header("origin")
        own = f"{self.scope.get('scheme', 'http')}://{self.header('host')}"
        foreign = site not in (None, "same-origin") or origin not in (None, own)
        if foreign or self.header("x-dray-page") != "1":
            raise Refusal(403, "a page of another origin sent this")

    async def body(self) -> Object:
        """The JSON object that was sent; raises Refusal."""
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise Refusal(400, "the client left")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > _MOST_BODY:
                        raise Refusal(413, f"the body has more than {_MOST_BODY} bytes")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, "the body did not arrive in time") from None
        try:
            found: Object = msgspec.json.decode(b"".join(parts) or b"{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal(400, "the body is not a JSON object") from None
        return found

    async def answer(self, status: int, document: Any, headers: Headers | None = None) -> None:
        own: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *(headers or [])]
        await self.send(status, own, msgspec.json.encode(document))

    async def send(self, status: int, headers: Headers, body: bytes) -> None:
        length = [(b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": [*PROTECTION, *headers, *length]})
        await self._send({"type": "http.response.body", "body": b"" if self.method == "HEAD" else body})

    async def start_stream(self) -> None:
        headers: Headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        await self._send({"type": "http.response.start", "status": 200, "headers": [*PROTECTION, *headers]})

    async def piece(self, body: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def left(self) -> None:
        """Returns when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
