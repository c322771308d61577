"""The body of a request as a document: JSON, YAML, CBOR or Kubernetes' protobuf envelope."""

from __future__ import annotations

import msgspec

from dray.api import cbor, intake
from dray.api.cbor import CborError
from dray.api.errors import ErrorType
from dray.api.intake import Refusal
from dray.api.objects import Object
from dray.api.protobuf import envelope
from dray.api.protobuf.envelope import UnknownKindError
from dray.api.protobuf.wire import WireError
from dray.server import field_validation, negotiation, status
from dray.server.context import Context
from dray.server.requests import Request
from dray.yaml import documents
from dray.yaml.text import ManifestError

APPLY_YAML = "application/apply-patch+yaml"
# Kubernetes clients that prefer CBOR for apply do not retry with YAML when it is refused.
_APPLY_CBOR = "application/apply-patch+cbor"
APPLIED = (APPLY_YAML, _APPLY_CBOR)
# A byte of YAML, protobuf or CBOR takes as long to decode as this many bytes of JSON.
_EFFORT = 8
# A document, and its duplicate fields.
_Found = tuple[Object, list[str]]


async def read(context: Context, request: Request, *, strict: bool = False) -> Object:
    """Returns the document of a request; duplicate fields are refused, or become a warning."""
    document = await read_object(context, request)
    if request.repeated and strict:
        raise status.bad_request(f"strict decoding error: {field_validation.told(request.repeated)}")
    request.warnings.extend(request.repeated)
    return document


async def read_object(context: Context, request: Request) -> Object:
    """Returns the document of a request; `request.repeated` lists its duplicate fields afterwards."""
    document, request.repeated = await context.worker.run(_effort(request), _read, request)
    return document


def _media(request: Request) -> str:
    return negotiation.media_type(request.headers.get("content-type", ""))


def _effort(request: Request) -> int:
    return len(request.body) * (1 if request.body[:1] == b"{" else _EFFORT)


def _read(request: Request) -> _Found:
    media = _media(request) or negotiation.JSON
    if media == negotiation.JSON:
        return read_json(request.body)
    if media == negotiation.YAML:
        return read_yaml(request.body)
    if media == negotiation.PROTOBUF:
        return read_protobuf(request.body), []
    if media == negotiation.CBOR:
        return _read_cbor(request.body)
    raise status.unsupported_media_type(negotiation.MEDIA_TYPES)


def read_protobuf(body: bytes) -> Object:
    try:
        return envelope.decode(body)
    except UnknownKindError as error:
        raise status.bad_request(f"{error}; custom kinds are read as JSON and YAML") from error
    except WireError as error:
        raise status.bad_request(f"unable to decode the protobuf body: {error}") from error


def read_cbor(body: bytes) -> Object:
    try:
        document = cbor.decode(body)
    except CborError as error:
        raise status.bad_request(f"unable to decode the CBOR body: {error}") from error
    if not isinstance(document, dict):
        raise status.bad_request("the body is not an object")
    return document


def read_json(body: bytes) -> _Found:
    if body.strip() == b"null":
        return {}, []
    document = intake.read_json(body)
    if not isinstance(document, Refusal):
        return document, []
    twice = [error.detail for error in document.errors if error.type is ErrorType.DUPLICATE_FIELD]
    if not twice:
        raise status.ApiError(document.code, document.reason, document.message)
    lenient: Object = msgspec.json.decode(body)
    return lenient, twice


async def read_applied(context: Context, request: Request) -> Object:
    """Returns the configuration of an apply patch, which is YAML or CBOR."""
    read = read_yaml if _media(request) == APPLY_YAML else _read_cbor
    document, request.repeated = await context.worker.run(_effort(request), read, request.body)
    return document


def _read_cbor(body: bytes) -> _Found:
    return read_cbor(body), []


def read_yaml(body: bytes) -> _Found:
    """Decodes a YAML document; JSON, which most clients send as YAML, is decoded faster."""
    if _is_json(body):
        return read_json(body)
    try:
        document, duplicates = documents.first(body)
        # Re-encoded as JSON, so that only JSON types remain and no two parts are the same object.
        plain = msgspec.json.decode(msgspec.json.encode(document))
    except (ManifestError, msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise status.bad_request(f"the body is not YAML: {str(error).removeprefix(':')}") from error
    if plain is None:
        return {}, []
    if not isinstance(plain, dict):
        raise status.bad_request("the body is not a JSON object")
    return plain, duplicates


def _is_json(body: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(body), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
