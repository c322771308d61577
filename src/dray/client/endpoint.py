"""Where an API server is and who asks: what a kubeconfig or a service account comes down to."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dray.client.errors import ConfigError

# Tokens in files are replaced while they are in use.
_TOKEN_AGE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Certificates and keys are PEM; without `ca` the system's authorities are trusted."""

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
        return bool(self.token or self.token_file or self.password)

    @property
    def base(self) -> str:
        return self.server.rstrip("/")


class Credentials:
    """The headers that tell the server who asks."""

    def __init__(self, endpoint: Endpoint, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._read_at: float | None = None
        self._token = endpoint.token

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
        """The server did not accept them: read the file anew before the next request."""
        self._read_at = None

    def _refresh(self, path: Path) -> None:
        now = self._clock()
        if self._read_at is not None and now - self._read_at < _TOKEN_AGE:
            return
        try:
            token = path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            # A file in the midst of being replaced is no reason to stop.
            if not self._token:
                raise ConfigError(f"cannot read the token in {path}: {error}") from error
            return
        self._token, self._read_at = token, now


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
