"""The guard at the door: from an ASGI scope to the user a request is from.

The server calls `Guard.admit` before it reads a body. It refuses credentials in the query string and headers that
contradict each other, and on plain HTTP whatever a foreign web page makes a browser send; then it authenticates, then
it lets those act as others who may. What is left for the server is to authorize the request itself, for `Caller.user`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.api.caches import remember
from dray.server.authorization import Authorizer, User
from dray.server.security.authentication import Authenticator, impersonate
from dray.server.security.credentials import read_credentials, refuse_tokens_in_query
from dray.server.security.loopback import refuse_foreign_origin
from dray.server.security.peer import peer_of

Scope = Mapping[str, Any]

_HEADERS = frozenset({b"authorization", b"host", b"origin", b"sec-fetch-site"})
_IMPERSONATE = b"impersonate-"


class Caller(msgspec.Struct, frozen=True):
    """`user` is the user that the request counts for; `sender` differs only with impersonation."""

    user: User
    sender: User

    @property
    def impersonates(self) -> bool:
        return self.user is not self.sender


class Guard:
    """Authenticates requests; `plain` is set for a server with plain HTTP on loopback."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, *, plain: bool = False) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._plain = plain

    def admit(self, scope: Scope) -> Caller:
        """Returns the caller of a request. Raises ApiError: 400, 401 or 403."""
        headers = [pair for pair in scope["headers"] if _matters(pair[0].lower())]
        if self._plain:
            refuse_foreign_origin(headers)
        refuse_tokens_in_query(scope.get("query_string", b""))
        credentials = read_credentials(headers)
        sender = self._authenticator.authenticate(credentials, peer_of(scope), scope["path"])
        return Caller(impersonate(sender, credentials.impersonation, self._authorizer), sender)


@remember(256)
def _matters(name: bytes) -> bool:
    """Returns True for headers of credentials; filtering first makes each later check cheap."""
    return name in _HEADERS or name.startswith(_IMPERSONATE)
