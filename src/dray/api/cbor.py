"""Reads CBOR (RFC 8949) as clients of Kubernetes write it: the same documents as in JSON.

Text is written as byte strings there, binary data as byte strings in a tag that asks for base64. Whatever JSON cannot
say is refused: numbers beyond 64 bits, NaN, keys that are no text. The number of values and the depth have limits,
since a body of one byte a value becomes an object of a hundred.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

MAX_VALUES: Final = 500_000
MAX_DEPTH: Final = 300
_LONGEST_TOLD: Final = 100

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _LIST, _MAP, _TAG = range(7)
_INDEFINITE: Final = 31
_BREAK: Final = 0xFF
_MAX_INT: Final = 2**63 - 1
_SIMPLE: Final = {20: False, 21: True, 22: None}
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_EPOCH, _BIGNUMS = 1, (2, 3)
_LATER: Final[dict[int, Callable[[bytes], bytes]]] = {
    21: lambda data: base64.urlsafe_b64encode(data).rstrip(b"="),
    22: base64.b64encode,
    23: base64.b16encode,
}


class CborError(ValueError):
    """The body is not CBOR, or contains what JSON cannot represent."""


def decode(body: bytes) -> Any:
    """Decodes a body with a single value. Raises CborError."""
    reader = _Reader(body)
    value = reader.value(0)
    if reader.position != len(body):
        raise CborError(f"{len(body) - reader.position} bytes follow the value")
    return value


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._values = 0
        self.position = 0

    def _count(self) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise CborError(f"more than {MAX_VALUES:,} values")

    def value(self, depth: int) -> Any:
        self._count()
        if depth > MAX_DEPTH:
            raise CborError(f"more than {MAX_DEPTH} values within each other")
        major, low = self._head()
        if major in (_UNSIGNED, _NEGATIVE):
            number = self._argument(low)
            if number > _MAX_INT:
                raise CborError("an integer has more than 64 bits")
            return number if major == _UNSIGNED else -1 - number
        if major in (_BYTES, _TEXT):
            return _text(self._string(major, low))
        if major == _LIST:
            return self._list(low, depth)
        if major == _MAP:
            return self._map(low, depth)
        if major == _TAG:
            return self._tagged(self._argument(low), depth)
        return self._simple(low)

    def _take(self, count: int) -> bytes:
        start, self.position = self.position, self.position + count
        if self.position > len(self._body):
            raise CborError("the body ends within a value")
        return self._body[start : self.position]

    def _head(self) -> tuple[int, int]:
        byte = self._take(1)[0]
        return byte >> 5, byte & 31

    def _argument(self, low: int) -> int:
        if low < 24:
            return low
        if low > 27:
            raise CborError(f"the length code {low} is reserved")
        return int.from_bytes(self._take(1 << (low - 24)))

    def _ends(self) -> bool:
        """Whether a sequence of unknown length ends here."""
        if self._body[self.position : self.position + 1] != bytes((_BREAK,)):
            return False
        self.position += 1
        return True

    def _string(self, major: int, low: int) -> bytes:
        if low != _INDEFINITE:
            return self._take(self._argument(low))
        chunks = []
        while not self._ends():
            # Empty parts take a byte each and make nothing larger, so that only a limit ends them.
            self._count()
            kind, length = self._head()
            if kind != major or length == _INDEFINITE:
                raise CborError("a string has parts of another type")
            chunks.append(self._take(self._argument(length)))
        return b"".join(chunks)

    def _list(self, low: int, depth: int) -> list[Any]:
        if low != _INDEFINITE:
            return [self.value(depth + 1) for _ in range(self._argument(low))]
        found = []
        while not self._ends():
            found.append(self.value(depth + 1))
        return found

    def _map(self, low: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if low == _INDEFINITE:
            while not self._ends():
                self._member(found, depth)
            return found
        for _ in range(self._argument(low)):
            self._member(found, depth)
        return found

    def _member(self, found: dict[str, Any], depth: int) -> None:
        major, low = self._head()
        if major not in (_BYTES, _TEXT):
            raise CborError("a key is not text")
        key = _text(self._string(major, low))
        if key in found:
            raise CborError(f"the key {key[:_LONGEST_TOLD]!r} is given twice")
        found[key] = self.value(depth + 1)

    def _tagged(self, tag: int, depth: int) -> Any:
        if tag in _BIGNUMS:
            raise CborError("an integer has more than 64 bits")
        if tag in _LATER and self._body[self.position : self.position + 1] and self._body[self.position] >> 5 == _BYTES:
            major, low = self._head()
            return _LATER[tag](self._string(major, low)).decode()
        value = self.value(depth + 1)
        return _moment(value) if tag == _EPOCH else value

    def _simple(self, low: int) -> Any:
        if low in _SIMPLE:
            return _SIMPLE[low]
        if low not in _FLOATS:
            raise CborError("a simple value must be true, false or null")
        form = _FLOATS[low]
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        if not math.isfinite(number):
            raise CborError("a number is not finite")
        return number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CborError("text is not UTF-8") from None


def _moment(seconds: Any) -> str:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise CborError("a time is not a number")
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        raise CborError("a time is out of range") from None
