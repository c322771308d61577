"""Stored documents: JSON that begins with its kind and apiVersion.

Because both stand first and are known, a version with the same fields as the stored one is given out by exchanging
the beginning, and an item of a list by leaving it out. Nothing is decoded for that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dray.api.objects import Object
from dray.server import status

MAX_BYTES: Final = 1536 * 1024
"""Size limit of a stored object, as etcd has it by default."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def opening(kind: str, api_version: str) -> bytes:
    """Returns the first bytes of every stored document of a kind; its metadata follows."""
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","


def ordered(obj: Object, kind: str, api_version: str) -> Object:
    identity = {"kind": kind, "apiVersion": api_version}
    return {**identity, "metadata": obj["metadata"], **obj, **identity}


class Encoder:
    """Encodes an object once its revision is known; refuses an object that is too large."""

    __slots__ = ("document", "most")

    def __init__(self, obj: Object, kind: str, api_version: str) -> None:
        self.document = ordered(obj, kind, api_version)
        self.most = MAX_BYTES

    def __call__(self, revision: int) -> bytes:
        if revision:
            self.document["metadata"]["resourceVersion"] = str(revision)
        value = encode(self.document)
        if len(value) > self.most:
            raise status.object_too_large(len(value), MAX_BYTES)
        return value


class Metadata(msgspec.Struct):
    """The part of a document that selectors and owner lookups need, decoded alone."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: Metadata


_read_head = msgspec.json.Decoder(_Head).decode


def metadata(value: bytes) -> Metadata:
    return _read_head(value).metadata
