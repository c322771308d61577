"""The endpoint of an API server, the credentials for it and TLS to it, as a kubeconfig or a service account says."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dray.client.errors import ConfigError, ConnectionFailed
from dray.client.exec_credentials import ExecConfig, ExecCredential, fetch

# Files with tokens are read again after this many seconds, because the tokens are replaced while in use.
_TOKEN_AGE: Final = 60.0
_VOLUME: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of an API server and how to authenticate.

    Certificates and keys are PEM; `ca` is the system's by default.
    """

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str = ""
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    impersonate: str = ""
    proxy: str = ""
    program: ExecConfig | None = None
    """Exec plugin that fetches a token or a client certificate, if none is given."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.server)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"{self.server!r} is not the address of an API server")
        if bool(self.certificate) != bool(self.key):
            raise ConfigError("a client certificate and its key must be given together")
        if self.secret and parts.scheme == "http" and not _loopback(parts.hostname or ""):
            raise ConfigError(f"refusing to send credentials to {self.server}: the connection is not encrypted")

    @property
    def secret(self) -> bool:
        return bool(self.token or self.token_file or self.password or self.program)

    @property
    def base(self) -> str:
        return self.server.rstrip("/")


class Credentials:
    """The authentication headers of requests, and the certificate that an exec plugin fetched."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._time_of_day = time_of_day
        self._read_at: float | None = None
        self._token = endpoint.token
        self._fetched: ExecCredential | None = None
        self._fetching = asyncio.Lock()
        self._worked = False

    async def fetch(self) -> ExecCredential | None:
        """Runs the exec plugin if there is one and its credentials have expired; returns new credentials."""
        if self._endpoint.program is None or self._is_fresh():
            return None
        async with self._fetching:
            if self._is_fresh():
                return None
            try:
                fetched = await fetch(self._endpoint.program)
            except ConfigError as error:
                # A plugin that has worked may work again; a first failure is a configuration error.
                if self._worked:
                    raise ConnectionFailed(str(error), sent=False) from error
                raise
            self._fetched, self._token, self._worked = fetched, fetched.token, True
            return fetched

    def _is_fresh(self) -> bool:
        known = self._fetched
        return known is not None and (known.expires is None or self._time_of_day() < known.expires)

    def headers(self) -> dict[str, str]:
        endpoint = self._endpoint
        headers = {"impersonate-user": endpoint.impersonate} if endpoint.impersonate else {}
        if endpoint.token_file is not None:
            self._refresh(endpoint.token_file)
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        elif endpoint.username:
            pair = f"{endpoint.username}:{endpoint.password}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return headers

    def forget(self) -> None:
        """Forgets the token after the server refused it, so that the next request reads it again."""
        self._read_at = None
        self._fetched = None

    def _refresh(self, path: Path) -> None:
        now = self._clock()
        if self._read_at is not None and now - self._read_at < _TOKEN_AGE:
            return
        try:
            token = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            # Keep the old token while the file is being replaced.
            if not self._token:
                raise ConfigError(f"cannot read the token in {path}: {error}") from error
            return
        self._token, self._read_at = token, now


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def in_cluster(*, environ: Mapping[str, str] = os.environ, volume: Path = _VOLUME) -> Endpoint:
    """Returns the endpoint of a pod's service account: address from the environment, token and CA from its volume."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    try:
        ca = (volume / "ca.crt").read_bytes()
        namespace = (volume / "namespace").read_text().strip()
        (volume / "token").read_bytes()
    except OSError as error:
        raise ConfigError(f"the pod has no service account: {error}") from error
    address = f"[{host}]" if ":" in host else host
    return Endpoint(f"https://{address}:{port}", namespace=namespace, ca=ca, token_file=volume / "token")


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    try:
        trusted = ssl.create_default_context(cadata=endpoint.ca.decode() if endpoint.ca else None)
        if endpoint.insecure:
            trusted.check_hostname = False
            trusted.verify_mode = ssl.CERT_NONE
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority for {endpoint.server} cannot be used: {error}") from error
    if endpoint.certificate and endpoint.key:
        show_certificate(trusted, endpoint, endpoint.certificate, endpoint.key)
    return trusted


def show_certificate(trusted: ssl.SSLContext, endpoint: Endpoint, certificate: bytes, key: bytes) -> None:
    """Loads another client certificate for later connections."""
    try:
        _load(trusted, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the client certificate for {endpoint.server} cannot be used: {error}") from error


def _load(trusted: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The ssl module reads keys from files only; this file is private and removed at once.
    with tempfile.TemporaryDirectory(prefix="dray-") as folder:
        path = Path(folder, "client.pem")
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        # An encrypted key must not make the process ask for a password on its terminal.
        trusted.load_cert_chain(path, password=lambda: b"")
