"""String and bytes literals: prefixes, quotes and escapes."""

from __future__ import annotations

import re

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]?))"
)


def decode_string(raw: str) -> str | bytes:
    """The value of a literal as it stands in the text, quotes and prefixes included; raises ValueError."""
    # Neither prefix nor escape, and a single quote or it would be followed by another.
    if raw[0] in "\"'" and raw[1] != raw[0] and "\\" not in raw:
        return raw[1:-1]
    binary = raw[0] in "bB"
    body = raw[1:] if binary else raw
    verbatim = body[0] in "rR"
    if verbatim:
        body = body[1:]
    quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
    body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    if binary:
        return body.encode() if verbatim else _decode_bytes(body)
    return body if verbatim else _ESCAPE.sub(_character, body)


def _character(match: re.Match[str]) -> str:
    simple, hexadecimal, short, long, octal, wrong = match.groups()
    if simple is not None:
        return _SIMPLE[simple]
    if wrong is not None:
        raise ValueError(f"unsupported escape sequence \\{wrong}")
    point = int(octal, 8) if octal is not None else int(hexadecimal or short or long, 16)
    if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
        raise ValueError("escape sequence is not a Unicode character")
    return chr(point)


def _decode_bytes(body: str) -> bytes:
    out = bytearray()
    position = 0
    for match in _ESCAPE.finditer(body):
        out += body[position : match.start()].encode()
        position = match.end()
        simple, hexadecimal, short, long, octal, wrong = match.groups()
        if simple is not None:
            out += _SIMPLE[simple].encode()
        elif short is not None or long is not None or wrong is not None:
            raise ValueError(f"unsupported escape sequence in bytes: {match.group()}")
        else:
            out.append(int(octal, 8) if octal is not None else int(hexadecimal, 16))
    return bytes(out + body[position:].encode())
