"""Headers of SPDY streams: names and values, compressed with the dictionary that SPDY/3 prescribes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

# The protocol defines this order: both sides must use the same dictionary.
_WORDS: Final = (
    *(
        "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age"
        " allow authorization cache-control connection content-base content-encoding content-language content-length"
        " content-location content-md5 content-range content-type date etag expect expires from host if-match"
        " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
        " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
        " user-agent vary via warning www-authenticate method get status"
    ).split(),
    *("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"),
)
_CODES: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
)
_REST: Final = (
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_LENGTH: Final = struct.Struct(">I")
DICTIONARY: Final = b"".join(_LENGTH.pack(len(word)) + word.encode() for word in _WORDS) + (_CODES + _REST).encode()
# Kubernetes clients send some hundred bytes.
_MOST_BYTES: Final = 8 * 1024


class ProtocolError(Exception):
    """Raised if the other side violates the protocol."""


class HeaderWriter:
    """Compresses headers; one writer serves a whole connection, because each block refers to earlier ones."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def write(self, headers: Mapping[str, str]) -> bytes:
        block = [_LENGTH.pack(len(headers))]
        for pair in headers.items():
            block += [_LENGTH.pack(len(word.encode())) + word.encode() for word in pair]
        return self._deflate.compress(b"".join(block)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


class HeaderReader:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def read(self, data: bytes) -> dict[str, str]:
        """Decompresses a block of headers. Raises ProtocolError."""
        try:
            block = self._inflate.decompress(data, _MOST_BYTES)
            if self._inflate.unconsumed_tail:
                raise ProtocolError(f"headers of more than {_MOST_BYTES} bytes")
            return _pairs(block)
        except (zlib.error, struct.error) as error:
            raise ProtocolError(f"headers cannot be read: {error}") from error


def _pairs(block: bytes) -> dict[str, str]:
    (count,), at, found = _LENGTH.unpack_from(block), _LENGTH.size, {}
    for _ in range(min(count, _MOST_BYTES)):
        pair = []
        for _ in range(2):
            (length,) = _LENGTH.unpack_from(block, at)
            at += _LENGTH.size
            pair.append(block[at : at + length].decode("latin-1"))
            at += length
        found[pair[0].lower()] = pair[1]
    return found
