"""TLS for the server and for clients inside the house.

The server asks every client for a certificate and takes those without one too; a certificate that is not from its own
authority, has expired or was made for a server ends the handshake. Sessions are not resumed: a resumed session would
skip the check of the certificate.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dray.server.security.authority import Authority
from dray.server.security.certificates import Credential
from dray.server.security.private_files import write_private


def server_context(authority: Authority, names: Iterable[str] = ()) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # TLS 1.2 resumes sessions from a cache that `ssl` gives no way to switch off.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    context.load_verify_locations(cadata=authority.certificate.decode())
    renew(context, authority, names)
    return context


def node_context(authority: bytes, credential: Credential) -> ssl.SSLContext:
    """For the agent of a node: who has no certificate of the authority does not get past the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.num_tickets = 0
    context.load_verify_locations(cadata=authority.decode())
    load_credential(context, credential)
    return context


def renew(context: ssl.SSLContext, authority: Authority, names: Iterable[str] = ()) -> None:
    """Gives a server that is running the certificate of today: handshakes from now on use it. Call it once a day."""
    load_credential(context, authority.server(names))


def client_context(authority: bytes, credential: Credential | None = None) -> ssl.SSLContext:
    """For a client that trusts one authority and, if it has a certificate, shows it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.decode())
    if credential is not None:
        load_credential(context, credential)
    return context


def load_credential(context: ssl.SSLContext, credential: Credential) -> None:
    """`ssl` reads keys from files only: the file is private and gone at once."""
    with tempfile.TemporaryDirectory(prefix="dray-") as directory:
        path = Path(directory) / "credential.pem"
        write_private(path, credential.certificate + credential.key)
        context.load_cert_chain(path)
