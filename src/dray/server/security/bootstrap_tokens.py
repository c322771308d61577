"""Authentication by bootstrap token: a machine that holds one may ask for the certificate of a node."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from dray.api import bootstrap_tokens
from dray.api.bootstrap_tokens import NAMESPACE, USER_PREFIX
from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.authority import Clock, utc_now
from dray.server.security.jwt import TokenError
from dray.server.security.service_account_tokens import Objects


class BootstrapTokens:
    """Reads the Secret anew each time: one that was deleted or has expired is good no more."""

    def __init__(self, objects: Objects, *, clock: Clock = utc_now) -> None:
        self._objects = objects
        self._clock = clock

    def authenticate(self, token: str, audiences: Iterable[str] = ()) -> tuple[User, tuple[str, ...]]:
        found = bootstrap_tokens.parts(token)
        if found is None:
            raise TokenError("not a bootstrap token")
        token_id, given = found
        stored = self._objects.get("", "secrets", NAMESPACE, bootstrap_tokens.secret_name(token_id)) or {}
        expected = bootstrap_tokens.secret_of(stored, token_id, self._clock())
        if not hmac.compare_digest(expected.encode(), given.encode()):
            raise TokenError("unknown or expired bootstrap token")
        groups = bootstrap_tokens.groups_of(stored)
        if groups is None:
            raise TokenError("the bootstrap token names a group that it may not give")
        return User(USER_PREFIX + token_id, (*groups, AUTHENTICATED)), tuple(audiences)
