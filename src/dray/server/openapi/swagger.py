"""`/openapi/v2`: what the documents of version 3 say, all group versions in one document of Swagger 2.0.

Version 2 has no alternatives (`oneOf`, `anyOf`, `not`) and no `nullable`; a schema loses them, and a member that only
wraps a reference becomes that reference. Bodies are parameters, and media types stand beside the operation. Defaults
are left out, as Kubernetes does. Each group version is written by itself, and the whole is put together from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.objects import Object
from dray.api.protobuf.wire import delimited
from dray.server.openapi import custom, messages
from dray.server.openapi.documents import INFO, Served, names
from dray.server.openapi.operations import DELETE_OPTIONS
from dray.server.resources import Resource

_ABSENT: Final = frozenset({"oneOf", "anyOf", "not", "nullable", "default"})
_V3, _V2 = "#/components/schemas/", "#/definitions/"
_METHODS: Final = frozenset({"delete", "get", "options", "patch", "post", "put"})
_PATHS_FIELD, _DEFINITIONS_FIELD = 8, 9
_KINDS: Final = "x-kubernetes-group-version-kind"


class Part(NamedTuple):
    """The part of the document that comes from one group version."""

    paths: Object
    definitions: Object


def part(document: Object, served: Served) -> Part:
    """Converts the version 3 document of a group version."""
    found = dict(document["components"]["schemas"])
    for item in served:
        if isinstance(item, Resource) and item.custom_schema is not None:
            found[names(item)[0]] = custom.schema_v2(item)
    definitions = {name: _schema(schema) for name, schema in found.items()}
    return Part({place: _path_item(item) for place, item in document["paths"].items()}, definitions)


class Pieces(NamedTuple):
    """A part encoded as JSON and as protobuf, by name."""

    paths: Mapping[str, tuple[bytes, bytes]]
    definitions: Mapping[str, tuple[bytes, bytes]]
    # The definition of DeleteOptions, which names all group versions that use it.
    options: Object


def pieces(part: Part) -> Pieces:
    write = messages.version2().named
    return Pieces(
        {name: (_json(name, item), write(2, "PathItem", name, item)) for name, item in part.paths.items()},
        {name: (_json(name, item), write(1, "Schema", name, item)) for name, item in part.definitions.items()},
        part.definitions.get(DELETE_OPTIONS, {}),
    )


def _options(parts: Sequence[Pieces]) -> Part:
    found = [part.options for part in parts if part.options]
    kinds = [kind for each in found for kind in each[_KINDS]]
    definition = {**found[0], _KINDS: [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]]}
    return Part({}, {DELETE_OPTIONS: definition})


def _json(name: str, value: Any) -> bytes:
    return msgspec.json.encode({name: value})[1:-1]


def whole(parts: Sequence[Pieces]) -> tuple[bytes, bytes]:
    """Returns the document as JSON and as protobuf."""
    paths: dict[str, tuple[bytes, bytes]] = {}
    definitions: dict[str, tuple[bytes, bytes]] = {}
    for piece in (pieces(_options(parts)), *parts):
        paths |= piece.paths
        # Definitions that several parts have are equal.
        definitions = {**piece.definitions, **definitions}
    head: Object = {"swagger": "2.0", "info": INFO}
    text = b"%s,%s,%s}" % (
        msgspec.json.encode(head)[:-1],
        b'"paths":{%s}' % _joined(paths, 0, b","),
        b'"definitions":{%s}' % _joined(definitions, 0, b","),
    )
    message = (
        messages.version2().write("Document", head)
        + delimited(_PATHS_FIELD, _joined(paths, 1))
        + delimited(_DEFINITIONS_FIELD, _joined(definitions, 1))
    )
    return text, message


def _joined(named: Mapping[str, tuple[bytes, bytes]], form: int, separator: bytes = b"") -> bytes:
    return separator.join([named[name][form] for name in sorted(named)])


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {**schema, "$ref": schema["$ref"].replace(_V3, _V2)}
    found: Object = {name: _within(name, value) for name, value in schema.items() if name not in _ABSENT}
    match found.get("allOf"):
        case [{"$ref": _} as only]:
            del found["allOf"]
            found |= only
        case [_, *_]:
            del found["allOf"]
    if schema.get("format") == "int-or-string" or ("oneOf" in schema and "type" not in found):
        found["type"] = "string"
    return found


def _within(name: str, value: Any) -> Any:
    """Converts the value of a member of a schema; `properties` has schemas by name."""
    if name == "properties":
        return {each: _schema(schema) for each, schema in value.items()}
    return _schema(value) if name in ("items", "additionalProperties", "allOf") else value


def _path_item(item: Object) -> Object:
    found: Object = {}
    for name, value in item.items():
        if name in _METHODS:
            found[name] = _operation(value)
        elif name == "parameters":
            found[name] = [_parameter(parameter) for parameter in value]
    return found


def _operation(operation: Object) -> Object:
    found = {name: value for name, value in operation.items() if name not in ("requestBody", "parameters", "responses")}
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = operation.get("requestBody", {})
    content = body.get("content", {})
    if content:
        schema = _schema(next(iter(content.values()))["schema"])
        parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
    found["consumes"] = list(content) or ["*/*"]
    found["produces"] = list(dict.fromkeys(kind for each in operation["responses"].values() for kind in _kinds(each)))
    found["schemes"] = ["https"]
    if parameters:
        found["parameters"] = parameters
    found["responses"] = {code: _response(each) for code, each in operation["responses"].items()}
    return found


def _kinds(response: Object) -> list[str]:
    return list(response.get("content", ()))


def _parameter(parameter: Object) -> Object:
    """Converts a path or query parameter, whose type is not in a schema."""
    return {**{name: value for name, value in parameter.items() if name != "schema"}, **parameter["schema"]}


def _response(response: Object) -> Object:
    found = {"description": response["description"]}
    if "content" in response:
        found["schema"] = _schema(next(iter(response["content"].values()))["schema"])
    return found
