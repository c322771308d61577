"""Warnings as headers of an answer.

A client stops reading where headers are too many or too long, so there is a limit for all of them together: past it,
each is cut short, and those that still do not fit are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.server.streams import Headers

_MOST_LETTERS = 4096
_SHORTENED = 256
# Readers of HTTP commonly take a hundred headers, and an answer has others.
_MOST = 64


def warning_headers(texts: Iterable[str]) -> Headers:
    kept = list(dict.fromkeys(texts))
    if sum(map(len, kept)) > _MOST_LETTERS:
        kept = list(dict.fromkeys(text[:_SHORTENED] for text in kept))
    found: Headers = []
    room = _MOST_LETTERS
    for text in kept[:_MOST]:
        room -= len(text)
        if room < 0:
            break
        found.append((b"warning", _header(text)))
    return found


def _header(text: str) -> bytes:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
