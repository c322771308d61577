"""The documents of `/openapi/v3`: an index, and one for each group version with its paths and operations.

`/openapi/v2` is made of them.
"""

from __future__ import annotations

import hashlib

import msgspec

from dray.api.objects import Object
from dray.server import status
from dray.server.openapi import schemas
from dray.server.openapi.swagger import swagger
from dray.server.resource_registry import ResourceRegistry
from dray.server.resources import Resource
from dray.server.subresources import part_methods
from dray.server.worker import AT_ONCE, Worker

_JSON = "application/json"
_PATCHES = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]


class OpenApi:
    """Makes documents when they are asked for, and keeps them until what is served changes."""

    def __init__(self, registry: ResourceRegistry, worker: Worker) -> None:
        self._registry = registry
        self._worker = worker
        self._documents: dict[str, bytes] = {}
        self._changes = -1

    def index(self) -> Object:
        return {"paths": {place: {"serverRelativeURL": self._url(place)} for place in self._places()}}

    def _places(self) -> list[str]:
        return [
            f"apis/{group}/{version}" if group else f"api/{version}"
            for group in self._registry.groups()
            for version in self._registry.versions(group)
        ]

    def _url(self, place: str) -> str:
        """The address carries a hash of what is served, so that clients may keep the document."""
        shown = [(r.plural, str(r.custom_schema)) for r in self._resources(place)]
        digest = hashlib.sha256(repr(("1", shown)).encode()).hexdigest()[:32].upper()
        return f"/openapi/v3/{place}?hash={digest}"

    def _resources(self, place: str) -> list[Resource]:
        match place.split("/"):
            case ["api", version]:
                return self._registry.resources("", version)
            case ["apis", group, version]:
                return self._registry.resources(group, version)
        return []

    async def document(self, place: str) -> bytes:
        return await self._kept(place, [place])

    async def version2(self) -> bytes:
        return await self._kept("", self._places())

    async def _kept(self, name: str, places: list[str]) -> bytes:
        """The document of version 3 of a place, or, without a name, that of version 2 of all."""
        if self._changes != self._registry.changes:
            self._changes = self._registry.changes
            self._documents.clear()
        if (found := self._documents.get(name)) is not None:
            return found
        changes = self._changes
        served = [self._resources(place) for place in places]
        if not all(served):
            raise status.no_such_path()
        made = await self._worker.run(AT_ONCE + 1, _encoded, served, merged=not name)
        if changes == self._changes:
            self._documents[name] = made
        return made


def _encoded(served: list[list[Resource]], *, merged: bool) -> bytes:
    return msgspec.json.encode(swagger(map(make, served)) if merged else make(served[0]))


def make(resources: list[Resource]) -> Object:
    """The document of the resources of one group version."""
    known = [resource for resource in resources if resource.custom_schema is None]
    components = schemas.components([resource.schema for resource in known] or ["meta_v1.ObjectMeta"])
    paths: Object = {}
    for resource in resources:
        if resource.custom_schema is None:
            one = schemas.component(resource.schema)
        else:
            one = ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
            components[one] = _custom(resource.custom_schema)
        marks = [group_version_kind(resource)]
        components[one] = {**components[one], "x-kubernetes-group-version-kind": marks}
        many = f"{one}List"
        components[many] = _list(resource, one)
        paths.update(_operations(resource, one, many))
    return {
        "openapi": "3.0.0",
        "info": {"title": "dray", "version": "v1.37.0"},
        "paths": paths,
        "components": {"schemas": components},
    }


def _custom(schema: Object) -> Object:
    """A custom kind's own schema, with the members that every object has."""
    metadata = {"allOf": [schemas.reference(schemas.component("meta_v1.ObjectMeta"))]}
    properties = {**(schema.get("properties") or {}), "metadata": metadata}
    properties.setdefault("apiVersion", {"type": "string"})
    properties.setdefault("kind", {"type": "string"})
    return {**schema, "type": "object", "properties": properties}


def _list(resource: Resource, one: str) -> Object:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": schemas.reference(one)},
            "kind": {"type": "string"},
            "metadata": schemas.reference(schemas.LIST_META),
        },
        "x-kubernetes-group-version-kind": [
            {"group": resource.group, "kind": resource.list_kind, "version": resource.version}
        ],
    }


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


def _operations(resource: Resource, one: str, many: str) -> Object:
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
