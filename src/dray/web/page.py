"""The page as an ASGI application: files, sign-in, streams and calls under `/ui`.

| Path | Answer |
|---|---|
| `/ui/static/PATH` | a file of the page |
| `/ui/session` | POST signs in with a token or code, GET says who is signed in, DELETE signs out |
| `/ui/code` | POST with a credential of the cluster gives a sign-in code for a browser |
| `/ui/stream/VIEW` | server-sent events: a snapshot, then changes |
| `/ui/call/VIEW/CALL` | POST, answered by the view |
| anything else | the document that loads the page, which shows the view that the path names |
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from dray.api.objects import Object
from dray.client.errors import ApiError, ClientError
from dray.web.access import Access, Identity
from dray.web.assets import Asset, assets
from dray.web.desk import Desk, DeskLimits
from dray.web.exchanges import Exchange, Headers, Receive, Refusal, Send
from dray.web.hosts import check_loopback
from dray.web.model import Model
from dray.web.rights import Rights
from dray.web.services import Services
from dray.web.sessions import Codes, Secrets, Session, Sessions, TooManyWrongCodes
from dray.web.streaming import Streaming
from dray.web.view import BadCall, Call, Question, View

PREFIX: Final = "/ui"
_MOST_QUERY: Final = 2000
_INDEX: Final = "index.html"
_NOT_VALID: Final = {
    "code": "this code is not valid: it is wrong, expired or was used before",
    "token": "this token is not valid: it is wrong, revoked or has expired",
    "": "show a sign-in code or a token",
}
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageLimits:
    sessions: int = 1000
    sessions_of_user: int = 20
    streams: int = 500
    streams_of_session: int = 6
    calls: int = 32
    """How many are answered at a time."""
    calls_of_user: int = 12
    desk: DeskLimits = field(default_factory=DeskLimits)


class Page:
    """`loopback` is set where the page is served over HTTP: then a request must name this machine as its host."""

    def __init__(
        self,
        views: Sequence[View],
        model: Model,
        access: Access,
        *,
        services: Services | None = None,
        loopback: bool = False,
        limits: PageLimits | None = None,
    ) -> None:
        limits = limits or PageLimits()
        self.codes = Codes()
        self._views = {view.name: view for view in views}
        self._model = model
        self._access = access
        self._services = services or Services()
        self._loopback = loopback
        self._sessions = Sessions(most=limits.sessions, most_of_user=limits.sessions_of_user)
        self._rights = Rights(model)
        self._limits = limits
        self._calls: Counter[str] = Counter()
        """How many are being answered, by the key of the user."""
        self._desk = Desk(limits.desk)
        self._streaming = Streaming(
            model,
            self._rights,
            self._sessions,
            self._services,
            most=limits.streams,
            most_of_session=limits.streams_of_session,
        )

    async def close(self) -> None:
        self._sessions.end_all()
        await self._streaming.close()
        await self._desk.close()
        await self._model.close()

    def end_streams(self) -> None:
        self._streaming.end()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        try:
            if self._loopback:
                check_loopback(exchange.header("host") or "")
            await self._serve(exchange)
        except Refusal as refusal:
            await exchange.answer(refusal.status, {"error": str(refusal)})

    async def _serve(self, exchange: Exchange) -> None:
        if exchange.path not in ("/", PREFIX) and not exchange.path.startswith(f"{PREFIX}/"):
            raise Refusal(404, f"there is nothing here; the page is at {PREFIX}")
        rest = exchange.path.removeprefix(PREFIX).strip("/")
        match rest.split("/"):
            case ["static", *parts]:
                await self._file(exchange, assets().get("/".join(parts)))
            case ["session"]:
                await self._session(exchange)
            case ["code"]:
                await self._code(exchange)
            case ["stream", name]:
                session = self._signed_in(exchange)
                if exchange.method != "GET":
                    raise Refusal(405, "a stream is read by GET")
                await self._streaming.run(exchange, session, self._view(name), _query(exchange, self._view(name)))
            case ["call", name, call]:
                await self._call(exchange, self._signed_in(exchange), self._view(name), call)
            case _:
                await self._file(exchange, assets()[_INDEX])

    async def _file(self, exchange: Exchange, asset: Asset | None) -> None:
        if asset is None:
            raise Refusal(404, "there is no such file")
        if exchange.method not in ("GET", "HEAD"):
            raise Refusal(405, "files can only be read")
        headers: Headers = [
            (b"content-type", asset.content_type.encode()),
            (b"etag", asset.etag.encode()),
            (b"cache-control", b"no-cache"),
            (b"vary", b"accept-encoding"),
        ]
        if exchange.header("if-none-match") == asset.etag:
            await exchange.send(304, headers, b"")
        elif "gzip" in (exchange.header("accept-encoding") or ""):
            await exchange.send(200, [*headers, (b"content-encoding", b"gzip")], asset.compressed)
        else:
            await exchange.send(200, headers, asset.body)

    async def _session(self, exchange: Exchange) -> None:
        exchange.check_origin()
        if exchange.method == "POST":
            identity = self._identity(exchange, await exchange.body())
            self.warm(identity)
            made = self._sessions.begin(identity)
            answer = {**self._about(identity), "key": made.key}
            await exchange.answer(200, answer, [_cookie(exchange, made.cookie)])
        elif exchange.method == "DELETE":
            for given in _secrets(exchange):
                self._sessions.end(given)
            await exchange.answer(200, {}, [_cookie(exchange, "", "; Max-Age=0")])
        elif exchange.method not in ("GET", "HEAD"):
            raise Refusal(405, "a session is begun by POST, read by GET and ended by DELETE")
        else:
            await exchange.answer(200, self._about(self._signed_in(exchange).identity))

    def warm(self, identity: Identity) -> None:
        """Starts reading the cluster: a viewer is about to open the page, most likely at its first view."""
        self._streaming.warm(next(iter(self._views.values())), identity)

    def _about(self, identity: Identity) -> dict[str, Any]:
        return {"user": identity.name, "cluster": self._services.cluster_name, "views": list(self._views)}

    def _identity(self, exchange: Exchange, body: Mapping[str, Any]) -> Identity:
        """Whom a sign-in is for; raises Refusal."""
        token, code = body.get("token", ""), body.get("code", "")
        if not isinstance(token, str) or not isinstance(code, str):
            raise Refusal(400, "token and code must be texts")
        try:
            if code:
                found = self.codes.redeem(code, exchange.address)
            else:
                found = self._access.identify(exchange.scope, token.strip())
        except TooManyWrongCodes:
            raise Refusal(429, "too many wrong codes; wait a minute, and get a new code") from None
        if found is None:
            raise Refusal(401, _NOT_VALID["code" if code else "token" if token else ""])
        return found

    async def _code(self, exchange: Exchange) -> None:
        """For commands that have a kubeconfig; a cookie is no credential here."""
        exchange.check_origin()
        if exchange.method != "POST":
            raise Refusal(405, "send POST to get a code")
        scheme, _, token = (exchange.header("authorization") or "").partition(" ")
        identity = self._access.identify(exchange.scope, token.strip() if scheme.lower() == "bearer" else "")
        if identity is None:
            raise Refusal(401, "show a token or a client certificate of this cluster")
        self.warm(identity)
        await exchange.answer(200, {"code": self.codes.issue(identity)})

    def _signed_in(self, exchange: Exchange) -> Session:
        exchange.check_origin()
        for given in _secrets(exchange):
            if (session := self._sessions.find(given)) is not None:
                return session
        raise Refusal(401, "sign in first")

    def _view(self, name: str) -> View:
        view = self._views.get(name)
        if view is None:
            raise Refusal(404, f"there is no view {unquote(name)[:40]!r}")
        return view

    async def _call(self, exchange: Exchange, session: Session, view: View, name: str) -> None:
        if name not in view.calls or exchange.method != "POST":
            raise Refusal(404, "there is no such call; calls are sent by POST")
        body = await exchange.body()
        user = session.identity.key
        if self._calls.total() >= self._limits.calls or self._calls[user] >= self._limits.calls_of_user:
            raise Refusal(429, "too many calls are being answered; try again in a moment")
        self._calls[user] += 1
        try:
            async with self._streaming.visits.visit():
                document = await self._answer(exchange, session, view, name, body)
        finally:
            self._calls[user] -= 1
            if not self._calls[user]:
                del self._calls[user]
        await exchange.answer(200, document)

    async def _answer(self, exchange: Exchange, session: Session, view: View, name: str, body: Object) -> Any:
        """Raises Refusal."""
        try:
            await self._model.need(view.reads)
            sight = await self._rights.sight(session.identity, view.reads)
            question = Question(self._model, sight, _query(exchange, view), self._services)
            return await view.calls[name](Call(question, session.identity, self._rights, self._desk, body))
        except BadCall as error:
            raise Refusal(400, str(error)) from None
        except ApiError as error:
            raise Refusal(error.status if error.status >= 400 else 502, str(error)) from None
        except ClientError as error:
            raise Refusal(502, f"the API server does not answer: {error}") from None
        except Exception as error:
            _logger.exception("call %s of the view %s failed", name, view.name)
            raise Refusal(500, "the page failed to answer; its log says why") from error


def _secrets(exchange: Exchange) -> list[Secrets]:
    """Returns the secrets of a session that the request shows. The key tells which of several cookies is the page's."""
    key = exchange.header("x-dray-key") or ""
    return [Secrets(cookie, key) for cookie in exchange.cookies]


def _cookie(exchange: Exchange, value: str, more: str = "") -> tuple[bytes, bytes]:
    secure = "; Secure" if exchange.scope.get("scheme") == "https" else ""
    text = f"{exchange.cookie_name}={value}; HttpOnly; SameSite=Strict; Path={PREFIX}{secure}{more}"
    return b"set-cookie", text.encode()


def _query(exchange: Exchange, view: View) -> dict[str, str]:
    """The parameters that the view knows; raises Refusal."""
    text = exchange.scope.get("query_string", b"").decode("latin-1")
    if len(text) > _MOST_QUERY:
        raise Refusal(414, "the query is too long")
    try:
        found = parse_qs(text, max_num_fields=20)
    except ValueError:
        raise Refusal(400, "the query has too many parameters") from None
    return {name: values[0] for name, values in sorted(found.items()) if name in view.parameters}
