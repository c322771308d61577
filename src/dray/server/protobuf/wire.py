"""The protobuf wire format: bytes into numbered fields, and no further."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MAX_VARINT = 10


class WireError(ValueError):
    """The bytes are not a protobuf message, or not the one they should be."""


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field in turn."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise WireError(f"illegal field number {number}")
        value: int | bytes
        if wire_type == VARINT:
            value, at = varint(data, at)
        elif wire_type == BYTES:
            size, at = varint(data, at)
            value, at = _take(data, at, size)
        elif wire_type in (FIXED64, FIXED32):
            value, at = _take(data, at, 8 if wire_type == FIXED64 else 4)
        else:
            raise WireError(f"illegal wire type {wire_type}")
        yield number, wire_type, value


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise WireError("unexpected end of the message")
    return data[at : at + size], at + size


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    raise WireError("unexpected end of a number")


def signed(value: int, bits: int) -> int:
    """A number as two's complement; wider ones are cut off, as decoders do."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
