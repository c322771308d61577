"""Answers as YAML.

They are made as JSON and written anew. A list is written item by item: decoding a long one in one go would take as long
as the interpreter lets nobody else work.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.server import documents
from dray.yaml.writing import as_yaml


class _List(msgspec.Struct):
    """What a list has besides its items comes before them, and is small."""

    items: list[msgspec.Raw]


def written(body: bytes) -> bytes:
    """A document of JSON as YAML."""
    try:
        items = msgspec.json.decode(body, type=_List).items
    except msgspec.ValidationError:
        items = []
    if not all(bytes(item).startswith(b"{") for item in items) or not items:
        return as_yaml([documents.decode(body)]).encode()
    head = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    members = [{name: documents.decode(value)} for name, value in head.items() if name != "items"]
    parts = [*map(_block, members), "items:\n", *(_block([documents.decode(item)]) for item in items)]
    return "".join(parts).encode()


def _block(value: dict[str, Any] | list[Any]) -> str:
    """A value as a part of a larger one: without the mark that ends a document whose last text is open-ended."""
    text = as_yaml([value])
    return text[:-4] if text.endswith("\n...\n") else text
