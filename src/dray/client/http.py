"""HTTP transport of a client.

Redirects are not followed: an API server sends none, and credentials must not go elsewhere.

A connection may die without a word, and behind a proxy that still acknowledges what it is sent no socket option tells.
So every answer has to come within `silence`, and a watch is asked for again that often: the server ends it by itself,
and one that did not end in time is dead. That is a request every 20 seconds for each kind that is watched, on the
connection that is open anyway, and brings nothing but what is new.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp
from yarl import URL

from dray.client.channels import PROTOCOLS, Channels
from dray.client.endpoint import Credentials, Endpoint, show_certificate, tls_context
from dray.client.errors import ApiError, ConfigError, ConnectionFailed
from dray.client.server_health import ServerHealth
from dray.client.transport import Answer, Request, joined

_CONNECT: Final = 10.0
_TOTAL: Final = 60.0
_SILENCE: Final = 20.0
_USER_AGENT: Final = "dray"
# Errors that a retry does not change: an invalid address, or a peer that cannot be trusted.
_LASTING: Final = (aiohttp.InvalidURL, aiohttp.ClientConnectorCertificateError, aiohttp.ServerFingerprintMismatch)
_UNSENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_FAILURES: Final = (aiohttp.ClientError, asyncio.TimeoutError, OSError)


class HttpTransport:
    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float = _TOTAL,
        silence: float = _SILENCE,
        connections: int = 32,
        health: ServerHealth | None = None,
    ) -> None:
        self._endpoint = endpoint
        self.health = health
        self._credentials = Credentials(endpoint)
        self._ssl = tls_context(endpoint) if endpoint.server.startswith("https:") else None
        self.watch_seconds = silence
        # A list may take long to arrive; writes have short answers.
        self._reading = _timeout(timeout, min(silence, timeout))
        self._writing = _timeout(min(timeout, 1.25 * silence), min(silence, timeout))
        self._requests = ConnectionPool(self._new_session, limit=connections)
        # Streams have separate connections without limit: they must not block requests.
        self.streams = ConnectionPool(self._new_session)

    async def send(self, request: Request) -> Answer:
        if self._endpoint.program is not None:
            await self._fetch()
        session = await self._requests.take()
        silent = False
        timeout = self._reading if request.method == "GET" else self._writing
        try:
            async with await self._open(session, request, timeout) as response:
                body = await response.read()
        except _FAILURES as error:
            silent = isinstance(error, TimeoutError)
            raise self.failure(request, error, timeout) from error
        finally:
            await self._requests.leave(session, silent=silent)
        return Answer(response.status, joined(response.headers.items()), body)

    async def stream(self, request: Request) -> HttpStream:
        if self._endpoint.program is not None:
            await self._fetch()
        session = await self.streams.take()
        timeout = _timeout(None, request.silence or None)
        try:
            response = await self._open(session, request, timeout)
        except BaseException as error:
            await self.streams.leave(session, silent=isinstance(error, TimeoutError))
            if isinstance(error, _FAILURES):
                raise self.failure(request, error, timeout) from error
            raise
        return HttpStream(self, request, response, session, timeout)

    @asynccontextmanager
    async def channels(self, request: Request) -> AsyncIterator[Channels]:
        """Connects to a container; raises ApiError if the server refuses."""
        if self._endpoint.program is not None:
            await self._fetch()
        session = await self.streams.take()
        url = URL(self._endpoint.base + request.path, encoded=True)
        try:
            async with session.ws_connect(
                url.with_query(request.query),
                headers={**request.headers, **self._credentials.headers()},
                protocols=PROTOCOLS,
                max_msg_size=0,
                proxy=self._endpoint.proxy or None,
                server_hostname=self._endpoint.tls_server_name or None,
            ) as socket:
                yield Channels(socket)
        except aiohttp.WSServerHandshakeError as error:
            raise ApiError(error.status, "", f"{request.path} cannot be opened: {error.message}") from error
        except _FAILURES as error:
            raise self.failure(request, error, self._writing) from error
        finally:
            await self.streams.leave(session)

    async def close(self) -> None:
        await self._requests.close()
        await self.streams.close()

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
        if self.health is not None:
            self.health.heard(response.status)
        return response

    async def show(self, certificate: bytes, key: bytes) -> None:
        """Uses another client certificate for new connections."""
        if self._ssl is not None:
            show_certificate(self._ssl, self._endpoint, certificate, key)
            # A connection keeps the certificate with which it was opened.
            await self._requests.renew()
            await self.streams.renew()

    async def _fetch(self) -> None:
        fetched = await self._credentials.fetch()
        if fetched is not None and fetched.certificate:
            await self.show(fetched.certificate, fetched.key)

    def failure(
        self, request: Request, error: BaseException, timeout: aiohttp.ClientTimeout
    ) -> ConnectionFailed | ConfigError:
        cause, silence = _told(error), 0.0
        if isinstance(error, TimeoutError) and not isinstance(error, _UNSENT):
            silence = timeout.sock_read or 0.0
            cause = f"no answer within {silence:g} s"
        if self.health is not None:
            self.health.failed(cause, silence)
        text = f"{request.method} {request.path}: {cause}"
        if isinstance(error, _LASTING):
            return ConfigError(text)
        return ConnectionFailed(text, sent=not isinstance(error, _UNSENT), cause=cause)

    def _new_session(self) -> aiohttp.ClientSession:
        trust: Any = True if self._ssl is None else self._ssl
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=trust),
            headers={"user-agent": _USER_AGENT},
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("content-type",),
        )


class HttpStream:
    def __init__(
        self,
        transport: HttpTransport,
        request: Request,
        response: aiohttp.ClientResponse,
        session: aiohttp.ClientSession,
        timeout: aiohttp.ClientTimeout,
    ) -> None:
        self._transport = transport
        self._request = request
        self._response = response
        self._session: aiohttp.ClientSession | None = session
        self._timeout = timeout
        self._silent = False
        self.status = response.status
        self.headers = joined(response.headers.items())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        health = self._transport.health
        try:
            async for chunk in self._response.content.iter_any():
                if health is not None:
                    health.heard()
                yield chunk
        except _FAILURES as error:
            self._silent = isinstance(error, TimeoutError)
            raise self._transport.failure(self._request, error, self._timeout) from error

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._response.close()
            await self._transport.streams.leave(session, silent=self._silent)


def _timeout(total: float | None, silence: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT, sock_read=silence)


def _told(error: BaseException) -> str:
    """Returns the message of an error; never empty."""
    if type(error) is aiohttp.ClientConnectorError and (error.os_error.errno or 0) > 0:
        return f"{error.host}:{error.port}: {os.strerror(error.os_error.errno or 0)}"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the server closed the connection before the answer was complete"
    return str(error) or str(error.__cause__ or "") or type(error).__name__


class ConnectionPool:
    """A bounded number of connections, replaced together once one of them stops answering.

    Idle connections often break together and without notice: a load balancer was replaced, a firewall dropped its
    state. So a connection that stops answering closes the idle ones too. A request that waits for a connection has not
    been sent yet, so the wait does not count against its timeout.
    """

    def __init__(self, open_session: Callable[[], aiohttp.ClientSession], *, limit: int = 0) -> None:
        """The session is opened with the first request, in its event loop. `limit` 0 means no limit."""
        self._open = open_session
        self._slots = asyncio.Semaphore(limit) if limit else None
        self._session: aiohttp.ClientSession | None = None
        self._users: Counter[aiohttp.ClientSession] = Counter()

    async def take(self) -> aiohttp.ClientSession:
        """Returns a session for one request; call `leave` after it."""
        if self._slots is not None:
            await self._slots.acquire()
        if self._session is None:
            self._session = self._open()
        self._users[self._session] += 1
        return self._session

    async def leave(self, session: aiohttp.ClientSession, *, silent: bool = False) -> None:
        """Returns a session to the pool; `silent` means that no answer came in time."""
        if self._slots is not None:
            self._slots.release()
        if silent and session is self._session:
            self._session = None
        self._users[session] -= 1
        if not self._users[session]:
            del self._users[session]
            if session is not self._session:
                await session.close()

    async def renew(self) -> None:
        """Makes new connections for later requests."""
        session, self._session = self._session, None
        if session is not None and not self._users[session]:
            await session.close()

    async def close(self) -> None:
        sessions = {*self._users, *([self._session] if self._session is not None else [])}
        self._session = None
        for session in sessions:
            await session.close()
