"""Decoding of YAML files: bytes into text for the parser, or a `ManifestError` that names the wrong byte.

UTF-8 with or without a byte order mark, and UTF-16 with one (what a Windows shell writes). JSON is YAML but
for a few characters, and `as_yaml` rewrites those, so that both take the same way and get the same places
and limits.
"""

from __future__ import annotations

import codecs
import re

_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_JSON_ONLY = re.compile(r"\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|[\x7f\x85\u2028\u2029]")


class ManifestError(Exception):
    """The input cannot be read: one line with its place and what to do about it."""

    def __init__(self, message: str, *, source: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.source, self.line, self.column = message, source, line, column

    def __str__(self) -> str:
        where = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return f"{where}: {self.message}" if where else self.message


def decode(data: bytes) -> str:
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if wide else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # utf-8-sig counts its offsets behind the byte order mark.
        offset = error.start + len(data) - len(error.object)
        before = data[:offset].decode(encoding, errors="replace")
        what = f"byte 0x{data[offset]:02x} at offset {offset} is not {'UTF-16' if wide else 'UTF-8'}"
        raise _not_text(what, before) from None
    text = as_yaml(text)
    if (control := _CONTROL.search(text)) is not None:
        before = text[: control.start()]
        what = f"control character U+{ord(control[0]):04X} at byte offset {len(before.encode())}"
        raise _not_text(what, before)
    return text


def _not_text(what: str, before: str) -> ManifestError:
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    message = f"{what}; the file is binary or damaged: give YAML or JSON text"
    return ManifestError(message, line=line, column=column)


def as_yaml(text: str) -> str:
    """JSON allows what YAML does not: leading tabs, surrogate pairs, line separators in strings."""
    body = text.lstrip()
    if body[:1] not in ("{", "["):
        return text
    margin = text[: len(text) - len(body)].replace("\t", " ")
    return margin + _JSON_ONLY.sub(_yaml_escape, body)


def _yaml_escape(found: re.Match[str]) -> str:
    if found[1] is not None:
        high, low = int(found[1], 16), int(found[2], 16)
        return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
    return found[0] if found[0] == "\\\\" else f"\\u{ord(found[0]):04x}"
