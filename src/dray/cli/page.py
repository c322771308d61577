"""The web page of the cluster that `dray up` runs: part of its API server, which knows its users."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from dray.cli.examples import find
from dray.client.api import ApiClient
from dray.server.http_protocol import recognise
from dray.server.inprocess import InProcessTransport
from dray.server.security.peer import STATE_KEY
from dray.server.status import ApiError
from dray.web.access import Identity
from dray.web.history.recorder import recording
from dray.web.model import Model
from dray.web.page import PREFIX, Page
from dray.web.services import Services
from dray.web.views import VIEWS

if TYPE_CHECKING:
    from dray.client.transport import Transport
    from dray.server.application import Application
    from dray.server.authorization import User
    from dray.server.running import RunningServer
    from dray.server.security.guard import Guard

_CREDENTIALS = (b"authorization", b"cookie")


def services(cluster_name: str) -> Services:
    """The functions of the command line that views use."""
    return Services(cluster_name=cluster_name, examples=find())


@asynccontextmanager
async def paged(server: RunningServer, transport: Transport) -> AsyncIterator[Page]:
    """Serves the page as a part of the server; `transport` is what the page reads the cluster through."""
    access = ServerAccess(server.application, server.context.security.guard)
    model = Model(ApiClient(transport))
    given = services("dray")
    page = Page(VIEWS, model, access, services=given, loopback=server.options.plain)
    server.application.mount(PREFIX, page)
    try:
        async with recording(model, given.history, given.layouts):
            yield page
    finally:
        await page.close()


class ServerAccess:
    """Users of the API server, by the token or the certificate that the server itself would accept."""

    def __init__(self, application: Application, guard: Guard) -> None:
        self._application = application
        self._guard = guard

    def identify(self, scope: Mapping[str, Any], token: str) -> Identity | None:
        credential = _with_token(scope, token)
        user = self._user(credential)
        if user is None:
            return None
        recognise(scope)
        client = ApiClient(InProcessTransport(self._application, user))
        # Names of users and groups may have any character: joined, those of two users could be equal.
        key = json.dumps((user.name, user.uid, sorted(user.groups)))
        return Identity(user.name, key, client, lambda: self._user(credential) == user)

    def _user(self, scope: Mapping[str, Any]) -> User | None:
        try:
            return self._guard.admit(scope).user
        except ApiError:
            return None


def _with_token(scope: Mapping[str, Any], token: str) -> Mapping[str, Any]:
    """The request as if it had the token as its credential, and no more than the guard looks at."""
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _CREDENTIALS]
    if token:
        headers.append((b"authorization", b"Bearer " + token.encode("latin-1", "replace")))
    state = {STATE_KEY: (scope.get("state") or {}).get(STATE_KEY)}
    return {"type": "http", "path": scope["path"], "headers": headers, "query_string": b"", "state": state}
