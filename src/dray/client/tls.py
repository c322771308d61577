"""TLS context of a client: trusted certificate authorities and the client certificate."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from dray.client.endpoint import Endpoint
from dray.client.errors import ConfigError


def context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        trusted = ssl.create_default_context(cadata=endpoint.ca.decode() if endpoint.ca else None)
        if endpoint.insecure:
            trusted.check_hostname = False
            trusted.verify_mode = ssl.CERT_NONE
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority for {endpoint.server} cannot be used: {error}") from error
    if endpoint.certificate and endpoint.key:
        show(trusted, endpoint, endpoint.certificate, endpoint.key)
    return trusted


def show(trusted: ssl.SSLContext, endpoint: Endpoint, certificate: bytes, key: bytes) -> None:
    """Has connections show a client certificate from now on."""
    try:
        _load(trusted, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the client certificate for {endpoint.server} cannot be used: {error}") from error


def _load(trusted: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module reads keys from files only; this one is its owner's alone, and gone at once.
    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        path = Path(folder, "client.pem")
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        # An encrypted key must not make the process ask for a password on its terminal.
        trusted.load_cert_chain(path, password=lambda: b"")
