"""Paths and operations: what can be asked of a resource, and with which parameters."""

from __future__ import annotations

from dray.api.objects import Object
from dray.server.openapi import schemas
from dray.server.resources import Resource
from dray.server.subresources import part_methods

_JSON = "application/json"
_PATCHES = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]


def _query(name: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


_WRITE = [_query("dryRun"), _query("fieldManager"), _query("fieldValidation")]
_LIST = [
    _query("allowWatchBookmarks", "boolean"),
    _query("continue"),
    _query("fieldSelector"),
    _query("labelSelector"),
    _query("limit", "integer"),
    _query("resourceVersion"),
    _query("resourceVersionMatch"),
    _query("sendInitialEvents", "boolean"),
    _query("timeoutSeconds", "integer"),
    _query("watch", "boolean"),
]
_DELETE = [
    _query("dryRun"),
    _query("gracePeriodSeconds", "integer"),
    _query("orphanDependents", "boolean"),
    _query("propagationPolicy"),
]


def paths(resource: Resource, one: str, many: str) -> Object:
    """The paths of a resource; `one` and `many` are the names of its schema and its list's."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    inside = (
        f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    )
    scope = [_path("namespace")] if resource.namespaced else []
    found: Object = {
        inside: {
            "parameters": scope,
            "get": _operation(resource, "list", "list", _LIST, answer=many),
            "post": _operation(resource, "create", "post", _WRITE, body=one, answer=one, code="201"),
            "delete": _operation(resource, "deletecollection", "deletecollection", [*_LIST[1:5], *_DELETE]),
        },
        f"{inside}/{{name}}": {
            "parameters": [*scope, _path("name")],
            "get": _operation(resource, "read", "get", [], answer=one),
            "put": _operation(resource, "replace", "put", _WRITE, body=one, answer=one),
            "patch": _patch(resource, one),
            "delete": _operation(resource, "delete", "delete", _DELETE, body=schemas.DELETE_OPTIONS),
        },
    }
    if resource.namespaced:
        found[f"{base}/{resource.plural}"] = {
            "get": _operation(resource, "listAll", "list", _LIST, answer=many),
        }
    for part in resource.subresources:
        found[f"{inside}/{{name}}/{part}"] = _part(resource, part, one, [*scope, _path("name")])
    return found


def _part(resource: Resource, part: str, one: str, parameters: list[Object]) -> Object:
    item: Object = {"parameters": parameters}
    for method in part_methods(resource, part):
        name = f"{method.lower()}{part.capitalize()}"
        if method == "PATCH":
            item["patch"] = _patch(resource, one, suffix=part.capitalize())
        elif method == "PUT":
            item["put"] = _operation(resource, name, "put", _WRITE, body=one, answer=one)
        elif method == "GET":
            item["get"] = _operation(resource, name, "get", [], answer=one)
        else:
            item["post"] = _operation(
                resource, name, "post", _WRITE, body=schemas.RAW, answer=schemas.STATUS, code="201"
            )
    return item


def _operation(
    resource: Resource,
    verb: str,
    action: str,
    parameters: list[Object],
    *,
    body: str = "",
    answer: str = "",
    code: str = "200",
) -> Object:
    content = {_JSON: {"schema": schemas.reference(answer or schemas.STATUS)}}
    return {
        "operationId": f"{verb}{_camel(resource)}",
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(resource),
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": {"content": {_JSON: {"schema": schemas.reference(body)}}}} if body else {}),
        "responses": {code: {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
    }


def _patch(resource: Resource, one: str, *, suffix: str = "") -> Object:
    kinds = [*_PATCHES, *(["application/strategic-merge-patch+json"] if resource.strategic else [])]
    operation = _operation(resource, f"patch{suffix}", "patch", [*_WRITE, _query("force", "boolean")], answer=one)
    operation["requestBody"] = {"content": {kind: {"schema": schemas.reference(schemas.RAW)} for kind in kinds}}
    return operation


def _camel(resource: Resource) -> str:
    group = "".join(part.capitalize() for part in resource.group.split(".")[:1]) or "Core"
    scope = "Namespaced" if resource.namespaced else ""
    return f"{group}{resource.version.capitalize()}{scope}{resource.kind}"


def group_version_kind(resource: Resource) -> Object:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}
