"""Frames on the control socket of a shim: a letter, a length of four bytes, and that many bytes.

To the shim: `a` attach, `i` input, `c` end of the input, `r` the size of the terminal, `s` a signal.
From the shim: `o` standard output, `e` standard error, `x` how the container ended.
"""

from __future__ import annotations

import struct

ATTACH, INPUT, END_OF_INPUT, RESIZE, SIGNAL = b"a", b"i", b"c", b"r", b"s"
OUTPUT, ERRORS, EXIT = b"o", b"e", b"x"
_HEAD = struct.Struct(">cI")
HEAD_SIZE = _HEAD.size
_LONGEST = 1 << 20


def frame(letter: bytes, data: bytes = b"") -> bytes:
    return _HEAD.pack(letter, len(data)) + data


def head(data: bytes) -> tuple[bytes, int]:
    letter, length = _HEAD.unpack(data)
    if length > _LONGEST:
        raise ValueError(f"a frame of {length} bytes")
    return letter, length


class Reader:
    """Cuts frames out of bytes as they arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data

    def next(self) -> tuple[bytes, int]:
        """Returns letter and length of the next frame, which may be incomplete; an empty letter if there is none."""
        return head(bytes(self._data[:HEAD_SIZE])) if len(self._data) >= HEAD_SIZE else (b"", 0)

    def take(self) -> bytes | None:
        """Returns the content of the next frame; None if it is incomplete."""
        letter, length = self.next()
        end = HEAD_SIZE + length
        if not letter or len(self._data) < end:
            return None
        body = bytes(self._data[HEAD_SIZE:end])
        del self._data[:end]
        return body
