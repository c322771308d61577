"""`/openapi/v2`: what the documents of version 3 say, all group versions in one document of Swagger 2.0.

Version 2 has no alternatives (`oneOf`, `anyOf`, `not`) and no `nullable`; a schema loses them, and a member that only
wraps a reference becomes that reference. Bodies are parameters, and media types stand beside the operation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dray.api.objects import Object

_ABSENT: Final = frozenset({"oneOf", "anyOf", "not", "nullable"})
_V3, _V2 = "#/components/schemas/", "#/definitions/"
_METHODS: Final = frozenset({"delete", "get", "patch", "post", "put"})
_JSON: Final = "application/json"


def swagger(documents: Iterable[Object]) -> Object:
    """One document of those of the group versions."""
    definitions: Object = {}
    paths: Object = {}
    info: Object = {}
    for document in documents:
        info = document["info"]
        for name, schema in document["components"]["schemas"].items():
            if name not in definitions:
                definitions[name] = _schema(schema)
        paths |= {place: _path_item(item) for place, item in document["paths"].items()}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace(_V3, _V2)}
    found: Object = {name: _within(name, value) for name, value in schema.items() if name not in _ABSENT}
    match found.get("allOf"):
        case [{"$ref": _} as only]:
            del found["allOf"]
            found |= only
        case [_, *_]:
            del found["allOf"]
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        found |= {"type": "string", "format": "int-or-string"}
    elif "oneOf" in schema and "type" not in found:
        found["type"] = "string"
    return found


def _within(name: str, value: Any) -> Any:
    """The value of a member of a schema: those called `properties` are schemas by name."""
    if name == "properties":
        return {each: _schema(schema) for each, schema in value.items()}
    return _schema(value) if name in ("items", "additionalProperties", "allOf") else value


def _path_item(item: Object) -> Object:
    found: Object = {}
    for name, value in item.items():
        if name in _METHODS:
            found[name] = _operation(value)
        elif name == "parameters":
            found[name] = [_parameter(each) for each in value]
    return found


def _operation(operation: Object) -> Object:
    found = {name: value for name, value in operation.items() if name not in ("requestBody", "parameters")}
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        schema = _schema(next(iter(content.values()))["schema"])
        parameters.append({"name": "body", "in": "body", "required": True, "schema": schema})
    found["consumes"] = list(content) or ["*/*"]
    found["produces"] = [_JSON]
    found["schemes"] = ["https"]
    if parameters:
        found["parameters"] = parameters
    found["responses"] = {code: _response(each) for code, each in operation["responses"].items()}
    return found


def _parameter(parameter: Object) -> Object:
    """A parameter in the path or the query, whose type stands in it and not in a schema."""
    return {**{name: value for name, value in parameter.items() if name != "schema"}, **parameter["schema"]}


def _response(response: Object) -> Object:
    found = {"description": response["description"]}
    if "content" in response:
        found["schema"] = _schema(response["content"][_JSON]["schema"])
    return found
