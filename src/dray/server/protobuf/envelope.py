"""The envelope: four bytes that say Kubernetes, then a message that names the kind and holds the object."""

from __future__ import annotations

import base64

from dray.api.objects import Object
from dray.server import status
from dray.server.protobuf.decoder import decode_message
from dray.server.protobuf.messages import message_of
from dray.server.protobuf.wire import WireError

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
MAX_BODY = 3 * 1024 * 1024


def decode_body(body: bytes, *, api_version: str = "", kind: str = "") -> Object:
    """The object in a body, as JSON would have given it; the arguments stand in for a kind that the body leaves out.

    Raises `ApiError`: 400 for what is malformed, 413 for what is too large, 415 for kinds that are read as JSON only.
    """
    if len(body) > MAX_BODY:
        raise status.too_large(MAX_BODY)
    if not body.startswith(MAGIC):
        raise status.bad_request("provided data does not appear to be a protobuf message, expected prefix k8s\\x00")
    try:
        envelope = decode_message(body[len(MAGIC) :], "Unknown")
        type_meta = envelope.get("typeMeta", {})
        api_version = type_meta.get("apiVersion") or api_version
        kind = type_meta.get("kind") or kind
        message = message_of(api_version, kind)
        if (
            message is None
            or envelope.get("contentEncoding")
            or envelope.get("contentType") not in (None, "", MEDIA_TYPE)
        ):
            raise status.unsupported_media_type(("application/json", "application/yaml"))
        document = decode_message(base64.b64decode(envelope.get("raw", "")), message)
    except WireError as error:
        raise status.bad_request(f"unable to decode the protobuf body: {error}") from error
    return {"apiVersion": api_version, "kind": kind, **document}
