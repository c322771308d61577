"""PEM: the blocks of a text, as Go's reader finds them. What stands between blocks is passed over."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BLOCK: Final = re.compile(r"^-----BEGIN ([^\n-]*)-----[ \t]*\r?\n(.*?)^-----END \1-----[ \t]*\r?$", re.M | re.S)
_HEADER: Final = re.compile(r"[^\n:]*:")


@dataclass(frozen=True, slots=True)
class Block:
    type: str
    has_headers: bool
    content: bytes


def blocks(text: str) -> Iterator[Block]:
    """Yields the PEM blocks of a text; skips those that are not base64."""
    for found in _BLOCK.finditer(text):
        body = found[2]
        has_headers = _HEADER.match(body) is not None
        if has_headers:
            body = body.partition("\n\n")[2]
        try:
            content = base64.b64decode("".join(body.split()), validate=True)
        except binascii.Error:
            continue
        yield Block(found[1], has_headers, content)
