"""Plain requests to a server, each on a connection of its own, with what came back."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
    timeout: float = 30.0,
) -> Answer:
    """Bytes and text are sent as they are, everything else as JSON."""
    sent = {"Content-Type": "application/json"} if body is not None else {}
    if body is not None and not isinstance(body, bytes | str):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    host = urlsplit(url)
    connection = http.client.HTTPConnection(host.hostname or "", host.port, timeout=timeout)
    try:
        connection.request(method, path, body, {**sent, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()
