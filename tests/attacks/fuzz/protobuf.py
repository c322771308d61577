"""Bodies in protobuf: documents as messages, whole and damaged."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from dray.api.protobuf import envelope
from dray.api.protobuf.wire import delimited, tag, varint

PROTOBUF = "application/vnd.kubernetes.protobuf"
# Fields and lengths that no message should have.
_PIECES = [
    b"\xff" * 10,
    b"\x80" * 11,
    tag(1, 2) + varint(1 << 40),
    tag(3, 3) * 50,
    tag(1, 4),
    tag(0, 0),
    tag(1, 5) + b"1234",
    delimited(1, b"\xff\xfe"),
    delimited(2, delimited(1, b"")) * 200,
    tag(7, 1) + struct.pack("<d", float("nan")),
]


def body(random: Random, document: Any) -> bytes | None:
    """The document in an envelope; nothing if protobuf cannot carry it."""
    if not isinstance(document, dict):
        return None
    try:
        encoded = envelope.encode(document)
    except ValueError:
        return None
    return damaged(random, encoded) if random.random() < 0.3 else encoded


def damaged(random: Random, data: bytes) -> bytes:
    """Bytes with some of them changed, doubled, left out or put in; mostly behind the head, which names the kind."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(min(30, len(changed) - 1), len(changed)) if random.random() < 0.9 else 0
        end = at + random.choice([1, 2, 4, 20, 200])
        change = random.choice(["set", "cut", "double", "insert", "end"])
        if change == "set":
            changed[at] = random.randrange(256)
        elif change == "cut":
            del changed[at:end]
        elif change == "double":
            changed[at:at] = changed[at:end]
        elif change == "insert":
            changed[at:at] = random.choice(_PIECES)
        else:
            del changed[max(at, 1) :]
        if not changed:
            break
    return bytes(changed)
