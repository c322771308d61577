"""Refuses request heads that two servers may read differently: where the body ends, or which host is meant.

A proxy before this server that reads such a head otherwise could be made to pass on a request that it has not seen.
The parser refuses most of them, among them Content-Length beside Transfer-Encoding or given twice. Here is what it
lets through.
"""

from __future__ import annotations

from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]
"""Header names in lower case, with their values."""


def problem(version: str, headers: Headers) -> str:
    """Returns what is wrong with the head of a request; an empty string if it is valid."""
    if version not in ("1.0", "1.1"):
        return "the HTTP version must be 1.0 or 1.1"
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        return "a request must have exactly one Host header"
    if b"transfer-encoding" not in names:
        return ""
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if version == "1.0" or [coding.strip().lower() for coding in codings] != [b"chunked"]:
        return "Transfer-Encoding must be chunked, and needs HTTP 1.1"
    return ""


def body_only(headers: Headers) -> bytes:
    """Returns the head of a request whose body is delimited by these headers."""
    kept = [name + b": " + value for name, value in headers if name in (b"content-length", b"transfer-encoding")]
    return b"\r\n".join([b"POST / HTTP/1.1", b"host: -", *kept, b"", b""])
