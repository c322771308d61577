"""Authentication: from a certificate or a token to a user, and impersonation of another.

A certificate is verified in the handshake and read once a connection. A bearer token is one of the server's static
tokens, kept as digests and compared in constant time, a service account's, or that of a machine that wants to join. A
request without credentials is anonymous, and may use only a few paths unless configured otherwise. Wrong credentials
are refused everywhere: treating them as anonymous, or as the user of a trusted connection, would hide the mistake.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from dray.api import bootstrap_tokens
from dray.api.bootstrap_tokens import NAMESPACE, USER_PREFIX
from dray.client.cluster_info import PATH as CLUSTER_INFO
from dray.server import status
from dray.server.authorization import ADMIN, ANONYMOUS, AUTHENTICATED, Access, Authorizer, User, forbidden
from dray.server.security import jwt, users
from dray.server.security.authority import Clock, utc_now
from dray.server.security.credentials import Credentials, Impersonation, bearer_token
from dray.server.security.jwt import TokenError
from dray.server.security.objects import Objects
from dray.server.security.peer import Peer
from dray.server.security.private_files import private_directory, read_private, write_private

# Paths without authentication: health checks, and the certificate authority for machines that join.
OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", CLUSTER_INFO})
_AUTHENTICATION = "authentication.k8s.io"


class TokenAuthenticator(Protocol):
    """Verifies tokens; raises TokenError for a token it does not accept."""

    def authenticate(self, token: str, audiences: Iterable[str] = ()) -> tuple[User, tuple[str, ...]]: ...


def new_token() -> str:
    return secrets.token_urlsafe(32)


def load_token(directory: Path, name: str = "admin.token") -> str:
    """Returns the static token in a directory; makes one if there is none."""
    with private_directory(directory):
        content = read_private(directory / name)
        token = content.decode().strip() if content is not None else ""
        if not token:
            token = new_token()
            write_private(directory / name, token.encode())
        return token


class Tokens:
    """Verifies static tokens, service account tokens and bootstrap tokens."""

    def __init__(
        self,
        static: Mapping[str, User] | None = None,
        service_accounts: TokenAuthenticator | None = None,
        joining: TokenAuthenticator | None = None,
    ) -> None:
        self._static = [(_digest(token), user) for token, user in (static or {}).items()]
        self._service_accounts = service_accounts
        self._joining = joining

    @classmethod
    def for_admin(
        cls, token: str, service_accounts: TokenAuthenticator | None = None, joining: TokenAuthenticator | None = None
    ) -> Tokens:
        return cls({token: ADMIN}, service_accounts, joining)

    def authenticate(self, token: str, audiences: Iterable[str] = ()) -> tuple[User, tuple[str, ...]]:
        digest = _digest(token)
        found: User | None = None
        for known, user in self._static:
            if hmac.compare_digest(known, digest):
                found = user
        if found is not None:
            return found, tuple(audiences)
        if self._joining is not None and bootstrap_tokens.parts(token) is not None:
            return self._joining.authenticate(token, audiences)
        if self._service_accounts is None or not jwt.looks_like_one(token):
            raise TokenError("unknown token")
        return self._service_accounts.authenticate(token, audiences)


class Authenticator:
    """Authenticates requests; `trusted` is the user without credentials, for plain HTTP on loopback only."""

    def __init__(
        self,
        tokens: TokenAuthenticator,
        *,
        anonymous_paths: frozenset[str] = OPEN_PATHS,
        trusted: User | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._tokens = tokens
        self._anonymous_paths = anonymous_paths
        self._trusted = trusted
        self._clock = clock

    def authenticate(self, credentials: Credentials, peer: Peer | None, path: str) -> User:
        """Returns the user of a request; a certificate goes before a token, as in Kubernetes. Raises a 401."""
        if peer is not None:
            if self._clock().timestamp() >= peer.expires:
                raise status.unauthorized()
            return peer.user
        if credentials.authorization is not None:
            return self._by_token(credentials.authorization)
        if self._trusted is not None:
            return self._trusted
        if path in self._anonymous_paths:
            return ANONYMOUS
        raise status.unauthorized()

    def _by_token(self, authorization: str) -> User:
        token = bearer_token(authorization)
        if token is None:
            raise status.unauthorized()
        try:
            user, _ = self._tokens.authenticate(token)
        except TokenError as error:
            raise status.unauthorized() from error
        return (
            user
            if AUTHENTICATED in user.groups
            else User(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def impersonate(user: User, wanted: Impersonation, authorizer: Authorizer) -> User:
    """Returns the impersonated user (`kubectl --as`); raises a 403 that names the missing permission.

    Each part of the wanted identity is a permission of its own: the verb `impersonate` on the user or service account,
    on every group, on the uid and on every extra value. A user who may act as `jane` cannot add `system:masters`, and
    nothing of the sender's own identity is kept.
    """
    if not wanted.requested:
        return user
    for access in _permissions(wanted):
        decision = authorizer.authorize(user, access)
        if not decision.allowed:
            raise forbidden(user, access, decision.reason)
    return User(wanted.user, _groups(wanted), wanted.uid, wanted.extra)


def _permissions(wanted: Impersonation) -> Iterator[Access]:
    account = users.service_account_of(wanted.user)
    if account is not None:
        yield Access("impersonate", "", "serviceaccounts", "", *account)
    else:
        yield Access("impersonate", "", "users", name=wanted.user)
    for group in wanted.groups:
        yield Access("impersonate", "", "groups", name=group)
    if wanted.uid:
        yield Access("impersonate", _AUTHENTICATION, "uids", name=wanted.uid)
    for key, values in wanted.extra.items():
        for value in values:
            yield Access("impersonate", _AUTHENTICATION, "userextras", key, name=value)


def _groups(wanted: Impersonation) -> tuple[str, ...]:
    groups = wanted.groups
    account = users.service_account_of(wanted.user)
    if account is not None and not groups:
        groups = users.service_account_groups(account[0])
    if AUTHENTICATED in groups or users.UNAUTHENTICATED in groups:
        return groups
    return (*groups, users.UNAUTHENTICATED if wanted.user == ANONYMOUS.name else AUTHENTICATED)


class BootstrapTokens:
    """Verifies tokens of machines that join, which may request a node's certificate.

    The Secret is read each time: a token that was deleted or has expired is refused.
    """

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
