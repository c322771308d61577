"""The client of webhooks, those of admission and of conversion: one POST over HTTPS, with a deadline and a bound.

A webhook that is slow or sends too much delays only its own requests, up to their deadline: nothing is locked while
waiting, and connections to one host are limited. Compressed answers are refused: a small one may be larger than memory.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from dray.api.objects import Object
from dray.server import webhook_services
from dray.server.http_client import load_http_client, told
from dray.server.webhook_services import NoAddress

if TYPE_CHECKING:
    import aiohttp

    from dray.server.context import Context

MAX_ANSWER: Final = 3 * 1024 * 1024
_JSON: Final = "application/json"
_HEADERS: Final = {"Content-Type": _JSON, "Accept": _JSON, "Accept-Encoding": "identity"}
_PER_HOST: Final = 64
_MOST_CONTEXTS: Final = 256


class WebhookError(Exception):
    """Raised if the webhook gave no usable answer."""


class WebhookClient:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._session: aiohttp.ClientSession | None = None
        self._trusting: dict[str, ssl.SSLContext] = {}

    async def post(self, client: Object, body: bytes, seconds: int) -> bytes:
        """Returns the body of the answer; raises WebhookError."""
        service = client.get("service")
        query = f"timeout={seconds}s"
        if service is None:
            url = str(client.get("url"))
            return await self._post(f"{url}?{query}", f"{url}?{query}", urlsplit(url).hostname, client, body, seconds)
        named, port = f"{service['name']}.{service['namespace']}.svc", service.get("port") or 443
        path = service.get("path") or "/"
        shown = f"https://{named}:{port}{path}?{query}"
        try:
            host, behind = webhook_services.resolve(self._context, service["namespace"], service["name"], port)
        except NoAddress as error:
            raise WebhookError(f'Post "{shown}": {error}') from None
        place = f"[{host}]" if ":" in host else host
        return await self._post(f"https://{place}:{behind}{path}?{query}", shown, named, client, body, seconds)

    async def _post(self, url: str, shown: str, name: str | None, client: Object, body: bytes, seconds: int) -> bytes:
        await load_http_client()
        import aiohttp

        try:
            async with asyncio.timeout(seconds):
                answer = await self._opened().post(
                    url,
                    data=body,
                    headers={**_HEADERS, "Host": name or ""},
                    ssl=self._tls(client.get("caBundle") or ""),
                    server_hostname=name,
                    allow_redirects=False,
                )
                try:
                    return await _read(answer)
                finally:
                    answer.close()
        except TimeoutError:
            raise WebhookError(f'Post "{shown}": context deadline exceeded') from None
        except WebhookError as error:
            raise WebhookError(f'Post "{shown}": {error}') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WebhookError(f'Post "{shown}": {told(error)}') from None

    def _tls(self, bundle: str) -> ssl.SSLContext:
        known = self._trusting.get(bundle)
        if known is None:
            if len(self._trusting) >= _MOST_CONTEXTS:
                self._trusting.clear()
            known = self._trusting[bundle] = trusting(bundle)
        return known

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=_PER_HOST, keepalive_timeout=30)
            timeout = aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                timeout=timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def trusting(bundle: str) -> ssl.SSLContext:
    """Returns a TLS context for the authorities of a bundle, or of this machine if it is empty; raises WebhookError."""
    try:
        given = b64decode(bundle).decode().strip()
        return ssl.create_default_context(cadata=given or None)
    except (ValueError, ssl.SSLError):
        raise WebhookError("unable to load root certificates: unable to parse bytes as PEM block") from None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    if (encoding := answer.headers.get("Content-Encoding", "identity").lower()) != "identity":
        raise WebhookError(f"the answer is compressed ({encoding}), which was not asked for")
    pieces, size = [], 0
    async for piece in answer.content.iter_chunked(64 * 1024):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER:
            raise WebhookError(f"the answer has more than {MAX_ANSWER} bytes")
    if answer.status != 200:
        raise WebhookError(f"the server answered with status {answer.status}")
    return b"".join(pieces)
