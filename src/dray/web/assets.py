"""The files of the page: read once, with an ETag each and compressed where that helps. Only listed files are served."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    content_type: str
    body: bytes
    compressed: bytes
    etag: str


@cache
def assets() -> dict[str, Asset]:
    """Returns all files of the page by their path below `static`."""
    found = (path for path in sorted(ROOT.rglob("*")) if path.suffix in _TYPES)
    return {path.relative_to(ROOT).as_posix(): _asset(path) for path in found}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    return Asset(_TYPES[path.suffix], body, gzip.compress(body, mtime=0), etag)
