"""Compression of large answers for clients that take gzip, as Kubernetes has it: objects and lists from 128 KiB on.

It is quick rather than thorough. A list is compressed as it is made, piece by piece.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from typing import Final

from dray.server import negotiation
from dray.server.requests import Request, Response

SMALLEST: Final = 128 * 1024
HEADERS: Final = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
_LEVEL: Final = 1
_GZIP: Final = 31


def applies(request: Request, answer: Response) -> bool:
    if request.method != "GET" or (answer.rest is None and len(answer.body) < SMALLEST):
        return False
    return not answer.final and negotiation.accepts_gzip(request.headers.get("accept-encoding", ""))


def compressed(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


async def pieces(given: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    try:
        async for piece in given:
            if data := packer.compress(piece):
                yield data
        yield packer.flush()
    finally:
        await given.aclose()
