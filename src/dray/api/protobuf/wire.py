"""The protobuf wire format: numbers, and fields with their numbers and wire types."""

from __future__ import annotations

# Wire types.
VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)
_MAX_VARINT = 10
_BITS64 = (1 << 64) - 1
# Numbers of one byte.
SMALL = tuple(bytes((value,)) for value in range(128))


class WireError(ValueError):
    """The bytes are not a protobuf message, or not the one they should be; `path` leads to the field."""

    path = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.path.removeprefix('.')}: {text}" if self.path else text


def varint(value: int) -> bytes:
    if 0 <= value < 128:
        return SMALL[value]
    value &= _BITS64
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def delimited(number: int, content: bytes) -> bytes:
    return tag(number, BYTES) + varint(len(content)) + content


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at an offset, and the offset after it."""
    # Nearly all have one byte.
    if data[at : at + 1] < b"\x80" and at < len(data):
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + _MAX_VARINT]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _BITS64, at
        shift += 7
    raise WireError("a number is cut off or too long")


def read_field(data: bytes, at: int) -> tuple[int, int, int | bytes, int]:
    """Number, wire type and value of the field that begins at an offset, and the offset after it; groups are empty."""
    head, at = read_varint(data, at)
    number, wire_type = head >> 3, head & 7
    if not 0 < number < 1 << 29:
        raise WireError(f"illegal field number {number}")
    if wire_type == BYTES:
        size, at = read_varint(data, at)
    elif wire_type == VARINT:
        value, at = read_varint(data, at)
        return number, wire_type, value, at
    elif wire_type == START_GROUP:
        return number, wire_type, b"", _skip_group(data, at)
    elif wire_type == FIXED64:
        size = 8
    elif wire_type == FIXED32:
        size = 4
    else:
        raise WireError(f"illegal wire type {wire_type}")
    end = at + size
    if end > len(data):
        raise WireError("unexpected end of the message")
    return number, wire_type, data[at:end], end


def _skip_group(data: bytes, at: int) -> int:
    """The offset after a group that began before this one: nobody uses groups, and everybody has to skip them."""
    depth = 1
    while depth:
        head, at = read_varint(data, at)
        wire_type = head & 7
        if wire_type in (START_GROUP, END_GROUP):
            depth += 1 if wire_type == START_GROUP else -1
        elif wire_type == VARINT:
            _, at = read_varint(data, at)
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
            if wire_type == BYTES:
                size, at = read_varint(data, at)
            elif not size:
                raise WireError(f"illegal wire type {wire_type}")
            at += size
    if at > len(data):
        raise WireError("unexpected end of a group")
    return at


def signed(value: int, bits: int) -> int:
    """A number as two's complement; a wider one is cut off, as decoders do."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
