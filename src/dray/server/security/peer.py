"""Peer of a TLS connection: the user that its certificate names."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.server.authorization import AUTHENTICATED, User
from dray.server.security.users import CREDENTIAL_ID

STATE_KEY = "dray.peer"


@dataclass(frozen=True, slots=True)
class Peer:
    """The user of a certificate. `expires` is in seconds since 1970: a connection may outlive its certificate."""

    user: User
    expires: float


def peer_of(scope: Mapping[str, Any]) -> Peer | None:
    """Returns the peer of the connection of an ASGI scope."""
    peer = (scope.get("state") or {}).get(STATE_KEY)
    return peer if isinstance(peer, Peer) else None


def read_peer(transport: asyncio.BaseTransport) -> Peer | None:
    """Returns the peer of a TLS connection; None without a certificate. The handshake has verified it."""
    connection = transport.get_extra_info("ssl_object")
    if connection is None or connection.context.verify_mode == ssl.CERT_NONE:
        return None
    certificate = connection.getpeercert()
    encoded = connection.getpeercert(binary_form=True)
    if not certificate or not encoded:
        return None
    return _read(certificate, hashlib.sha256(encoded).hexdigest())


def _read(certificate: Mapping[str, Any], fingerprint: str) -> Peer | None:
    attributes = [attribute for names in certificate.get("subject", ()) for attribute in names]
    users = [value for key, value in attributes if key == "commonName"]
    groups = [value for key, value in attributes if key == "organizationName"]
    # With two names it would be unclear which is meant.
    if len(users) != 1 or not users[0]:
        return None
    extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    user = User(users[0], (*groups, AUTHENTICATED), extra=extra)
    return Peer(user, ssl.cert_time_to_seconds(certificate["notAfter"]))
