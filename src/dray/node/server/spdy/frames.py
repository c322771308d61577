"""Frames of SPDY/3.1, cut out of bytes as they arrive, and written.

A control frame is version, type, flags, length; a data frame is stream, flags, length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dray.node.server.spdy.headers import ProtocolError

SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY = 1, 2, 3, 6, 7
FIN: Final = 0x01
CANCEL: Final = 5
_CONTROL: Final = 0x8000_0000
_VERSION: Final = 3
_HEAD: Final = struct.Struct(">II")
_LONGEST: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame; `type` is 0 for data, and `stream` is set only for data."""

    type: int
    flags: int
    payload: bytes
    stream: int = 0

    @property
    def fin(self) -> bool:
        return bool(self.flags & FIN)


class FrameReader:
    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete after these bytes. Raises ProtocolError."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._data)
            length = second & 0xFF_FFFF
            if length > _LONGEST:
                raise ProtocolError(f"a frame of {length} bytes; the limit is {_LONGEST}")
            end = _HEAD.size + length
            if len(self._data) < end:
                return
            payload = bytes(self._data[_HEAD.size : end])
            del self._data[:end]
            if first & _CONTROL:
                if (first >> 16) & 0x7FFF != _VERSION:
                    raise ProtocolError("a frame of another version than SPDY/3")
                yield Frame(first & 0xFFFF, second >> 24, payload)
            else:
                yield Frame(0, second >> 24, payload, first)


def data(stream: int, payload: bytes, *, fin: bool = False) -> bytes:
    return _HEAD.pack(stream, (FIN if fin else 0) << 24 | len(payload)) + payload


def control(kind: int, payload: bytes) -> bytes:
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, len(payload)) + payload


def number(payload: bytes, at: int = 0) -> int:
    """Returns the 31-bit number at an offset of the payload, such as a stream id; raises ProtocolError."""
    if len(payload) < at + 4:
        raise ProtocolError("a frame is too short")
    return int.from_bytes(payload[at : at + 4], "big") & 0x7FFF_FFFF
