"""The documents of `/openapi/v3`: an index, and one for each group version."""

from __future__ import annotations

import hashlib

import msgspec

from dray.api.objects import Object
from dray.server import status
from dray.server.openapi import operations, schemas
from dray.server.resource_registry import ResourceRegistry
from dray.server.resources import Resource


class OpenApi:
    """Makes documents when they are asked for, and keeps them until what is served changes."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._made: dict[str, bytes] = {}
        self._changes = -1

    def index(self) -> Object:
        places = [
            f"apis/{group}/{version}" if group else f"api/{version}"
            for group in self._registry.groups()
            for version in self._registry.versions(group)
        ]
        return {"paths": {place: {"serverRelativeURL": self._url(place)} for place in places}}

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

    def document(self, place: str) -> bytes:
        if self._changes != self._registry.changes:
            self._changes = self._registry.changes
            self._made.clear()
        if place not in self._made:
            resources = self._resources(place)
            if not resources:
                raise status.no_such_path()
            self._made[place] = msgspec.json.encode(make(resources))
        return self._made[place]


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
        marks = [operations.group_version_kind(resource)]
        components[one] = {**components[one], "x-kubernetes-group-version-kind": marks}
        many = f"{one}List"
        components[many] = _list(resource, one)
        paths.update(operations.paths(resource, one, many))
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
