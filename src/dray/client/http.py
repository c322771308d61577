"""The way to a server over HTTP, on one aiohttp session.

Redirects are not followed: an API server sends none, and credentials must not go elsewhere. The session opens with the
first request, in the loop that makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
from yarl import URL

from dray.client import tls
from dray.client.endpoint import Credentials, Endpoint
from dray.client.errors import ConfigError, ConnectionFailed
from dray.client.transport import Answer, Known, Request, joined

_CONNECT: Final = 10.0
_TOTAL: Final = 60.0
_USER_AGENT: Final = "dray"
# An address that leads nowhere, or a peer that cannot be trusted, is not going to change with the next attempt.
_LASTING: Final = (aiohttp.InvalidURL, aiohttp.ClientConnectorCertificateError, aiohttp.ServerFingerprintMismatch)
_UNSENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_FAILURES: Final = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class HttpTransport:
    def __init__(self, endpoint: Endpoint, *, timeout: float = _TOTAL, connections: int = 32) -> None:
        self._endpoint = endpoint
        self._credentials = Credentials(endpoint)
        self._ssl = tls.context(endpoint) if endpoint.server.startswith("https:") else None
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def send(self, request: Request) -> Answer:
        try:
            async with await self._open(self._requests(), request, self._timeout) as response:
                body = await response.read()
        except _FAILURES as error:
            raise _failure(request, error) from error
        return Answer(response.status, joined(response.headers.items()), body)

    async def stream(self, request: Request) -> HttpStream:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=request.silence or None)
        try:
            return HttpStream(request, await self._open(self._streams(), request, timeout))
        except _FAILURES as error:
            raise _failure(request, error) from error

    async def close(self) -> None:
        for session in (self._session, self._watches):
            if session is not None:
                await session.close()
        self._session = self._watches = None

    async def _open(
        self, session: aiohttp.ClientSession, request: Request, timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        url = URL(self._endpoint.base + request.path, encoded=True)
        response = await session.request(
            request.method,
            url.with_query(request.query) if request.query else url,
            headers={**request.headers, **self._credentials.headers()},
            data=request.body or None,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._endpoint.proxy or None,
            server_hostname=self._endpoint.tls_server_name or None,
        )
        if response.status == 401:
            self._credentials.forget()
        return response

    def _requests(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = self._new_session(self._connections)
        return self._session

    def _streams(self) -> aiohttp.ClientSession:
        """Streams have connections of their own, without limit: they must not keep requests from being sent."""
        if self._watches is None:
            self._watches = self._new_session(0)
        return self._watches

    def _new_session(self, limit: int) -> aiohttp.ClientSession:
        trust: Any = True if self._ssl is None else self._ssl
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, ssl=trust),
            headers={"user-agent": _USER_AGENT},
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("content-type",),
        )


class HttpStream:
    known: Known | None = None

    def __init__(self, request: Request, response: aiohttp.ClientResponse) -> None:
        self._request = request
        self._response = response
        self.status = response.status
        self.headers = joined(response.headers.items())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except _FAILURES as error:
            raise _failure(self._request, error) from error

    async def close(self) -> None:
        self._response.close()


def _failure(request: Request, error: BaseException) -> ConnectionFailed | ConfigError:
    text = f"{request.method} {request.path}: {error or type(error).__name__}"
    if isinstance(error, _LASTING):
        return ConfigError(text)
    return ConnectionFailed(text, sent=not isinstance(error, _UNSENT))
