"""The documents of `/openapi/v3`: one for each group version, with its paths, operations and schemas."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.catalogue import RELEASE
from dray.api.objects import Object
from dray.api.wire_types import TYPES, type_of
from dray.server import discovery
from dray.server.openapi import custom, schemas
from dray.server.openapi.operations import Operations, place, resources_operation
from dray.server.resources import Resource
from dray.server.reviews import Review

Served = Sequence[Resource | Review]

_SHARED = ("meta_v1.Status", "meta_v1.APIResourceList", "patch")
_OF_OBJECTS = ("meta_v1.DeleteOptions", "meta_v1.ObjectMeta", "meta_v1.ListMeta")
INFO: Object = {"title": "dray", "version": f"v{RELEASE[0]}.{RELEASE[1]}.0"}


def make(served: Served) -> Object:
    """Returns the document of a group version."""
    group, version = served[0].group, served[0].version
    components = schemas.components(_types(served), group, version)
    paths: Object = {f"{place(group, version)}/": resources_operation(group, version)}
    for item in served:
        one, many = names(item)
        if isinstance(item, Resource) and item.custom_schema is not None:
            components[one] = custom.schema(item)
            components[many] = custom.list_schema(item, one)
        paths.update(Operations(item, one, many).paths())
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(components.items()))},
    }


def names(item: Resource | Review) -> tuple[str, str]:
    """Returns the names of the schemas of a kind and of its list."""
    if isinstance(item, Resource) and item.custom_schema is not None:
        return custom.name(item, item.kind), custom.name(item, item.list_kind)
    one = schemas.component(type_of(f"{item.group}/{item.version}".lstrip("/"), item.kind) or "")
    return one, f"{one}List"


def _types(served: Served) -> list[str]:
    found = list(_SHARED)
    for item in served:
        if not isinstance(item, Resource):
            found.append(type_of(f"{item.group}/{item.version}", item.kind) or "")
            continue
        found += _OF_OBJECTS
        if item.custom_schema is None:
            found += [item.schema, f"{item.schema}List"] if "list" in item.verbs else [item.schema]
        found += [name for part in item.subresources if (name := discovery.part_type(item, part))]
    return [name for name in dict.fromkeys(found) if name in TYPES or name == "patch"]
