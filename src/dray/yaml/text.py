"""Text of YAML files and positions in it: bytes into text for the parser, or a `ManifestError` with the wrong byte.

UTF-8 with or without a byte order mark, and UTF-16 with one (what a Windows shell writes). JSON is YAML but
for a few characters, and `as_yaml` rewrites those, so that both take the same way and get the same places
and limits.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_JSON_ONLY = re.compile(r"\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|[\x7f\x85\u2028\u2029]")
Below = dict[str, "Position"] | list["Position"] | None
_SEGMENT = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
# Versions differ in these levels, and an API server mixes the shapes: a v1beta1 file gets errors on paths
# with `exactly`, a v1 file gets the one about admin access without it and, in templates, without
# the inner `spec`.
_OPTIONAL_LEVELS: Final = ("exactly", "basic", "spec")


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


class Position:
    """The line and column (from 1) of a mapping's key or a list's item, with the positions below it.

    `find` follows a field path as an API server writes it (`spec.devices[0].capacity[memory]`) and stops at the
    closest thing that the file has, because many errors are about what is missing.
    """

    __slots__ = ("below", "column", "line")

    def __init__(self, line: int, column: int, below: Below = None) -> None:
        self.line = line
        self.column = column
        self.below = below

    def __repr__(self) -> str:
        return f"Position({self.line}, {self.column})"

    def find(self, path: str) -> Position:
        """The place of a field, or of its closest ancestor that exists."""
        here = self
        for segment in segments(path):
            there = here.child(segment)
            if there is None and segment in _OPTIONAL_LEVELS:
                continue
            if there is None:
                there = here._through_optional_level(segment)
            if there is None:
                break
            here = there
        return here

    def child(self, segment: str) -> Position | None:
        if isinstance(self.below, dict):
            return self.below.get(segment)
        if isinstance(self.below, list) and segment.isdecimal() and len(segment) < 10:
            index = int(segment)
            return self.below[index] if index < len(self.below) else None
        return None

    def _through_optional_level(self, segment: str) -> Position | None:
        for level in _OPTIONAL_LEVELS:
            wrapper = self.child(level)
            if wrapper is not None and (found := wrapper.child(segment)) is not None:
                return found
        return None


def segments(path: str) -> list[str]:
    """The names, indices and map keys of a field path; a map key may hold dots and slashes."""
    return [key or name for key, name in _SEGMENT.findall(path)]
