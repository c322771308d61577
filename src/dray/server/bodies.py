"""The body of a request as a document: JSON, YAML or Kubernetes' protobuf envelope."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import yaml

from dray.api import intake
from dray.api.errors import ErrorType
from dray.api.intake import Refusal
from dray.server import negotiation, status
from dray.server.protobuf.envelope import decode_body
from dray.server.requests import Request

Object = dict[str, Any]

_SUPPORTED = (negotiation.JSON, negotiation.YAML, negotiation.PROTOBUF)


_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What the aliases of a YAML document may unfold to, as members and items.
_MOST_NODES = 500_000
# Reading YAML takes ten times as long as JSON.
_MOST_YAML_BYTES = 512 * 1024
_DEEPEST = 200


class _Loader(_PARSER):  # type: ignore[misc]
    """YAML 1.1 as Go's library reads it: `y` and `n` are booleans, dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:y|Y|n|N)$"), list("yYnN"))
_Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


def read(request: Request, *, strict: bool = False) -> Object:
    """The document of a request; what a lenient reader overlooks becomes a warning."""
    if isinstance(request.document, dict):
        return request.document
    content_type = request.headers.get("content-type", "")
    media = negotiation.media_type(content_type) if content_type else negotiation.JSON
    if media == negotiation.JSON:
        return read_json(request.body, request.warnings, strict=strict)
    if media == negotiation.YAML:
        return read_yaml(request.body)
    if media == negotiation.PROTOBUF:
        return decode_body(request.body)
    raise status.unsupported_media_type(_SUPPORTED)


def read_json(body: bytes, warnings: list[str], *, strict: bool = False) -> Object:
    if body.strip() == b"null":
        return {}
    document = intake.read_json(body)
    if not isinstance(document, Refusal):
        return document
    twice = [error for error in document.errors if error.type is ErrorType.DUPLICATE_FIELD]
    if not twice or strict:
        raise status.ApiError(document.code, document.reason, document.message)
    warnings.extend(f'duplicate field "{error.field}"' for error in twice)
    lenient: Object = msgspec.json.decode(body)
    return lenient


def read_applied(request: Request) -> Object:
    """The configuration that an apply patch is."""
    return request.document if isinstance(request.document, dict) else read_yaml(request.body)


def read_yaml(body: bytes) -> Object:
    """A YAML document; JSON, which most clients send as YAML, takes the short way."""
    try:
        plain = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        plain = _load_yaml(body)
    if plain is None:
        return {}
    if not isinstance(plain, dict):
        raise status.bad_request("the body is not a JSON object")
    return plain


def _load_yaml(body: bytes) -> Any:
    if len(body) > _MOST_YAML_BYTES:
        raise status.too_large(_MOST_YAML_BYTES)
    try:
        _check_depth(body)
        document = yaml.load(body, _Loader)
        if _size(document, {}) > _MOST_NODES:
            raise status.bad_request("the body is not YAML: document contains excessive aliasing")
        # Through JSON, so that nothing but JSON's types goes further.
        return msgspec.json.decode(msgspec.json.encode(document))
    except (yaml.YAMLError, msgspec.MsgspecError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise status.bad_request(f"the body is not YAML: {error}") from error


def _check_depth(body: bytes) -> None:
    """The parser itself does not recurse, what builds documents from its events does."""
    depth = 0
    for event in yaml.parse(body, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise status.bad_request("the body is not YAML: it is nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _size(value: Any, known: dict[int, int]) -> int:
    """How many nodes a document has when its aliases are unfolded; each is counted once for all its uses."""
    if not isinstance(value, (dict, list)):
        return 1
    found = known.get(id(value))
    if found is None:
        # While it is being counted, an alias to itself is without end.
        known[id(value)] = _MOST_NODES + 1
        inner = value.values() if isinstance(value, dict) else value
        found = known[id(value)] = 1 + sum(_size(item, known) for item in inner)
    return found
