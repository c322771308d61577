"""Answers as YAML.

They are made as JSON and written anew. A list is written item by item: decoding a long one in one go would take as long
as the interpreter lets nobody else work.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dray.server import documents
from dray.yaml.writing import Writer

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def written(body: bytes) -> bytes:
    """A document of JSON as YAML."""
    return b"".join(part.encode() for part in _parts(body))


def _parts(body: bytes) -> Iterator[str]:
    writer = Writer()
    if not body.startswith(b"{") or body == b"{}":
        yield writer.write(documents.decode(body))
        return
    for name, value in _members(body).items():
        if bytes(memoryview(value)[:1]) == b"[" and (items := _items(value)):
            yield from writer.write_list(name, map(documents.decode, items))
        else:
            yield writer.write({name: documents.decode(value)})
