"""`dray apiserver` on a bad day: slow, throttling, refusing what it might have done, breaking off and forgetting.

What goes wrong stands between the control plane and the server; the test itself has a way of its own.
"""

import asyncio
import contextlib
import gzip
import json
from collections import Counter
from random import Random

import aiohttp
from aiohttp import web
from yarl import URL

from dray.client.api import ApiClient
from dray.client.endpoint import Endpoint
from dray.client.http import HttpTransport
from tests.scheduling_loop.api_servers import DrayServer

_REASONS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
# So few that lists come in several pages.
_PAGE = 3
_LARGE = 500
_HOPS = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


def _status(code):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": _REASONS[code]}
    return {**status, "message": "on a bad day", "metadata": {}}


class BadDay:
    """Passes requests on to `target`; `rate` is the share that goes wrong, and `dealt` counts how."""

    def __init__(self, target, random, *, rate=0.15, slowest=0.05, longest_watch=4.0):
        self._target = target
        self._random = random
        self._rate, self._slowest, self._longest_watch = rate, slowest, longest_watch
        self._session = None
        self.dealt = Counter()

    @contextlib.asynccontextmanager
    async def serving(self):
        """Gives the address."""
        application = web.Application(client_max_size=16 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        # Connections to a server that was killed must not be used again.
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            try:
                await site.start()
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()

    async def _handle(self, request):
        await asyncio.sleep(self._random.random() * self._slowest)
        watch = request.query.get("watch") == "true"
        fate = self._fate(request, watch) if self._random.random() < self._rate else None
        if fate is not None:
            self.dealt[fate] += 1
        if fate == "lost":
            return self._break_off(request)
        if isinstance(fate, int):
            return self._refusal(fate)
        try:
            return await (self._watch(request) if watch else self._pass_on(request, fate))
        except aiohttp.ClientError:
            return self._break_off(request)

    def _fate(self, request, watch):
        """A status, or what becomes of the connection."""
        fates = [429, 500, 503, "lost"]
        if request.method != "GET":
            fates += [409, "done and lost", "done and denied"]
        elif watch or "continue" in request.query:
            fates += [410, 410]
        return self._random.choice(fates)

    def _refusal(self, code):
        # Who throttles says for how long; who is unavailable, often not.
        headers = {"retry-after": "1"} if code == 429 else {}
        return web.json_response(_status(code), status=code, headers=headers)

    def _break_off(self, request):
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=502)

    def _forward(self, request, body):
        url = URL(self._target + request.raw_path, encoded=True)
        if "limit" in request.query:
            url = url.update_query(limit=str(_PAGE))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOPS}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        return self._session.request(request.method, url, headers=headers, data=body, timeout=timeout)

    async def _pass_on(self, request, fate):
        async with self._forward(request, await request.read()) as answer:
            body = await answer.read()
        if fate == "done and lost":
            return self._break_off(request)
        if fate == "done and denied":
            return self._refusal(504)
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOPS}
        takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
        if len(body) > _LARGE and takes_gzip and "content-encoding" not in headers:
            headers["content-encoding"] = "gzip"
            body = gzip.compress(body, 1)
        return web.Response(status=answer.status, headers=headers, body=body)

    async def _watch(self, request):
        end = asyncio.get_running_loop().time() + self._random.random() * self._longest_watch
        fate = self._random.choice(("watch ended", "watch cut", "watch forgotten"))
        async with self._forward(request, None) as answer:
            response = web.StreamResponse(status=answer.status, headers={"content-type": "application/json"})
            await response.prepare(request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    async for line in answer.content:
                        await asyncio.sleep(self._random.random() * self._slowest / 5)
                        await response.write(line)
        self.dealt[fate] += 1
        if fate == "watch cut":
            await response.write(b'{"type":"MODIFIED","object":{"kind":"P')
            return self._break_off(request)
        if fate == "watch forgotten":
            await response.write(json.dumps({"type": "ERROR", "object": _status(410)}).encode() + b"\n")
        await response.write_eof()
        return response


class FaultyServer(DrayServer):
    name = "dray apiserver on a bad day"

    def __init__(self, folder):
        super().__init__(folder)
        self._random = Random(1)

    @contextlib.asynccontextmanager
    async def serving(self):
        day = BadDay(self.url, self._random)
        async with super().serving() as (straight, _), day.serving() as url:
            yield straight, lambda: ApiClient(HttpTransport(Endpoint(url)))
        assert day.dealt, "nothing went wrong"
