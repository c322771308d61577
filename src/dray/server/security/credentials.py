"""Credentials of a request, read from its raw headers.

Headers that must be unique and are not are an error: which of two counts would depend on who reads them. Tokens in the
query string are refused, not ignored: they end up in logs and histories, and a client that does this should learn it
at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from dray.server import status

Headers = Iterable[tuple[bytes, bytes]]

_TOKEN_PARAMETERS = frozenset({"access_token", "authorization", "bearer_token", "id_token", "token"})
_EXTRA = b"impersonate-extra-"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The requested impersonation; empty if there is none."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def requested(self) -> bool:
        return bool(self.user or self.groups or self.uid or self.extra)


NOBODY = Impersonation()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a request; `authorization` is the raw header, None without one."""

    authorization: str | None = field(default=None, repr=False)
    impersonation: Impersonation = NOBODY


NONE = Credentials()


def read_credentials(headers: Headers) -> Credentials:
    """Reads the credentials; raises a 400 for headers that are invalid or contradict each other."""
    authorization: str | None = None
    impersonation: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        lower = name.lower()
        if lower == b"authorization":
            if authorization is not None:
                raise status.bad_request("more than one Authorization header")
            authorization = _text(value)
        elif lower.startswith(b"impersonate-"):
            impersonation.append((lower, value))
    if authorization is None and not impersonation:
        return NONE
    return Credentials(authorization, _read_impersonation(impersonation) if impersonation else NOBODY)


def bearer_token(authorization: str) -> str | None:
    """Returns the token of `Bearer <token>`; None for other schemes."""
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token and " " not in token else None


def refuse_tokens_in_query(query: bytes) -> None:
    if not query or (b"%" not in query and b"to" not in query.lower() and b"auth" not in query.lower()):
        return
    try:
        names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
    except ValueError as error:
        raise status.bad_request("the query string cannot be read") from error
    if names & _TOKEN_PARAMETERS:
        raise status.bad_request("credentials belong into the Authorization header, not into the query string")


def _read_impersonation(headers: Headers) -> Impersonation:
    single: dict[bytes, str] = {}
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    for name, value in headers:
        text = _text(value)
        if name == b"impersonate-group":
            groups.append(text)
        elif name.startswith(_EXTRA) and len(name) > len(_EXTRA):
            extra.setdefault(_extra_key(name), []).append(text)
        elif name not in (b"impersonate-user", b"impersonate-uid"):
            raise status.bad_request(f"unknown header {name.decode('latin-1')!r}")
        elif name in single:
            raise status.bad_request(f"more than one {name.decode()} header")
        else:
            single[name] = text
    found = Impersonation(
        single.get(b"impersonate-user", ""),
        tuple(groups),
        single.get(b"impersonate-uid", ""),
        {key: tuple(values) for key, values in extra.items()},
    )
    # An empty name would mean the sender instead of the impersonated user.
    if not found.user or "" in found.groups or (b"impersonate-uid" in single and not found.uid):
        raise status.bad_request("impersonation needs a user, and no group or uid may be empty")
    return found


def _extra_key(name: bytes) -> str:
    return unquote(name[len(_EXTRA) :].decode("latin-1")).lower()


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise status.bad_request("a header with credentials is not UTF-8") from error
    if _CONTROL.search(text):
        raise status.bad_request("a header with credentials contains control characters")
    return text.strip(" ")
