"""The fields of gnostic's messages for OpenAPI documents, of version 2 and 3.

A message is described by its members in JSON, each with its number and type: a scalar, a message, `[]` a list, `{}` a
map, `any` for whatever is written as YAML, of which JSON is a part. Members that begin with `x-` are collected in the
field `x-`. Described are the parts that Kubernetes' documents use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_SCHEMA_NUMBERS: Final = (
    "format title description default multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength"
    " pattern maxItems minItems uniqueItems maxProperties minProperties required enum additionalProperties type items"
    " allOf properties discriminator readOnly xml externalDocs example"
)
_SCALARS: Final = {
    "multipleOf": "double",
    "maximum": "double",
    "minimum": "double",
    "exclusiveMaximum": "bool",
    "exclusiveMinimum": "bool",
    "uniqueItems": "bool",
    "nullable": "bool",
    "required": "[]str",
    "enum": "[]any",
    "default": "any",
    "example": "any",
    "externalDocs": "ExternalDocs",
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), "int"),
}
Members = Mapping[str, tuple[int, str]]


def _members(text: str) -> Members:
    """Parses `swagger=1 info=2Info` into members; a member without type is a string."""
    found = {}
    for part in text.split():
        name, _, rest = part.partition("=")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        found[name] = (int(digits), rest[len(digits) :] or "str")
    return found


def _schema_members(numbers: Iterable[tuple[int, str]], **types: str) -> Members:
    known = {**_SCALARS, **types}
    return {name: (number, known.get(name, "str")) for number, name in numbers}


_SHARED = {
    "ExternalDocs": _members("description=1 url=2 x-=3"),
}
V2: Final[Mapping[str, Members]] = {
    **_SHARED,
    "Document": _members("swagger=1 info=2Info paths=8Paths definitions=9{}Schema x-=16"),
    "Info": _members("title=1 version=2 description=3 x-=7"),
    "PathItem": _members(
        "get=2Operation put=3Operation post=4Operation delete=5Operation options=6Operation head=7Operation"
        " patch=8Operation parameters=9[]ParametersItem x-=10"
    ),
    "Operation": _members(
        "tags=1[]str summary=2 description=3 operationId=5 produces=6[]str consumes=7[]str"
        " parameters=8[]ParametersItem responses=9Responses schemes=10[]str deprecated=11bool x-=13"
    ),
    "BodyParameter": _members("description=1 name=2 in=3 required=4bool schema=5Schema x-=6"),
    "PathParameter": _members("required=1bool in=2 description=3 name=4 type=5 format=6 uniqueItems=19bool x-=22"),
    "QueryParameter": _members("required=1bool in=2 description=3 name=4 type=6 format=7 uniqueItems=20bool x-=23"),
    "Response": _members("description=1 schema=2SchemaItem x-=5"),
    "SchemaItem": _members("schema=1Schema"),
    "Schema": {
        "$ref": (1, "str"),
        **_schema_members(
            enumerate(_SCHEMA_NUMBERS.split(), 2),
            type="TypeItem",
            items="ItemsItem",
            allOf="[]Schema",
            properties="{}Schema",
            additionalProperties="AdditionalProperties",
        ),
        "x-": (31, "any"),
    },
}
_SCHEMA_NUMBERS_V3: Final = (
    (1, "nullable"),
    (6, "externalDocs"),
    (7, "example"),
    *enumerate(
        "title multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems"
        " minItems uniqueItems maxProperties minProperties required enum type allOf oneOf anyOf not items properties"
        " additionalProperties default description format".split(),
        9,
    ),
)
V3: Final[Mapping[str, Members]] = {
    **_SHARED,
    "Document": _members("openapi=1 info=2Info paths=4Paths components=5Components x-=9"),
    "Info": _members("title=1 description=2 version=6 x-=7"),
    "Components": _members("schemas=1{}SchemaOrReference x-=10"),
    "PathItem": _members(
        "get=4Operation put=5Operation post=6Operation delete=7Operation options=8Operation head=9Operation"
        " patch=10Operation parameters=13[]ParameterOrReference x-=14"
    ),
    "Operation": _members(
        "tags=1[]str summary=2 description=3 operationId=5 parameters=6[]ParameterOrReference"
        " requestBody=7RequestBodyOrReference responses=8Responses deprecated=10bool x-=13"
    ),
    "Parameter": _members("name=1 in=2 description=3 required=4bool schema=10SchemaOrReference x-=14"),
    "RequestBody": _members("description=1 content=2{}MediaType required=3bool x-=4"),
    "MediaType": _members("schema=1SchemaOrReference x-=5"),
    "Response": _members("description=1 content=3{}MediaType x-=5"),
    "Reference": _members("$ref=1 summary=2 description=3"),
    "Schema": {
        **_schema_members(
            _SCHEMA_NUMBERS_V3,
            default="DefaultType",
            items="ItemsItem",
            properties="{}SchemaOrReference",
            additionalProperties="AdditionalProperties",
            allOf="[]SchemaOrReference",
            oneOf="[]SchemaOrReference",
            anyOf="[]SchemaOrReference",
            **{"not": "Schema"},
        ),
        "x-": (36, "any"),
    },
}
