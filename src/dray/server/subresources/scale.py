"""`scale`: the number of replicas as an object of its own, of built-in kinds and of custom ones that say where it is.

A `Scale` is read from the object and written back into it under the same rules as an update of the object itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from dray.api import errors
from dray.api.label_selectors import text_of
from dray.api.objects import Object, mapping
from dray.server import bodies, negotiation, status, updates
from dray.server.calls import Call
from dray.server.custom_resource import CustomResource
from dray.server.parameters import write_options
from dray.server.patches.json_patch import json_patch
from dray.server.patches.merge_patch import merge_patch
from dray.server.patches.strategic import strategic_merge
from dray.server.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE
from dray.server.requests import Answer, document
from dray.server.resources import Resource

_API_VERSION: Final = "autoscaling/v1"
_SCHEMA: Final = "autoscaling_v1.Scale"
_PATCHES: Final[dict[str, Callable[[Object, Any], Any]]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_MERGE: lambda scale, given: strategic_merge(scale, given, _SCHEMA),
}
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
# Where the built-in kinds have what a Scale says.
_BUILT_IN: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


async def get(call: Call) -> Answer:
    return document(_scale(call.resource, await call.stored()))


async def update(call: Call) -> Answer:
    body = await bodies.read(call.context, call.request)
    return await _write(call, lambda scale: body, "update")


async def patch(call: Call) -> Answer:
    supported = [media for media in _PATCHES if call.resource.strategic or media != STRATEGIC_MERGE]
    media = negotiation.media_type(call.request.headers.get("content-type", ""))
    if media not in supported:
        raise status.unsupported_media_type(supported)
    try:
        given = call.request.decoded_body()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    return await _write(call, lambda scale: _PATCHES[media](scale, given), "patch")


async def _write(call: Call, make: Callable[[Object], Any], verb: str) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")

    def change(old: Object) -> Object:
        scale = mapping(make(_scale(call.resource, old)))
        given = mapping(scale.get("metadata"))
        if given.get("name") not in (None, "", call.path.name):
            raise status.bad_request(
                f"the name of the object ({given['name']}) does not match the name on the URL ({call.path.name})"
            )
        replicas = _replicas(scale, call.path.name)
        obj = call.resource.answer(old)
        pinned = {name: given[name] for name in ("uid", "resourceVersion") if given.get(name)}
        obj = {**obj, "metadata": {**obj["metadata"], **pinned}}
        return _put(obj, _path(call.resource, "specReplicasPath"), replicas)

    value = await updates.update(call.write(options, verb), change)
    (seen,) = await call.resource.seen([value])
    return document(_scale(call.resource, call.resource.read(seen)))


def _replicas(scale: Object, name: str) -> int:
    replicas = mapping(scale.get("spec")).get("replicas", 0)
    if type(replicas) is not int or abs(replicas) >= 2**31:
        raise status.bad_request(f"spec.replicas must be a whole number of 32 bits, not {replicas!r}")
    if replicas < 0:
        problem = errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status.invalid("Scale", "autoscaling", name, [problem])
    return replicas


def _path(resource: Resource, member: str) -> list[str]:
    paths = (resource.scale or {}) if isinstance(resource, CustomResource) else _BUILT_IN
    return [step for step in paths.get(member, "").split(".") if step]


def _dig(obj: Object, path: list[str]) -> Any:
    value: Any = obj
    for step in path:
        value = mapping(value).get(step)
    return value


def _put(obj: Object, path: list[str], value: Any) -> Object:
    step, *rest = path
    return {**obj, step: _put(mapping(obj.get(step)), rest, value) if rest else value}


def _selector(resource: Resource, obj: Object) -> str:
    path = _path(resource, "labelSelectorPath")
    selector = _dig(obj, path) if path else None
    if isinstance(resource, CustomResource):
        return selector if isinstance(selector, str) else ""
    if resource.kind == "ReplicationController":
        selector = {"matchLabels": selector}
    return text_of(mapping(selector))


def _scale(resource: Resource, obj: Object) -> Object:
    metadata = {m: obj["metadata"][m] for m in _KEPT if m in obj["metadata"]}
    selector = _selector(resource, obj)
    return {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": metadata,
        "spec": {"replicas": _dig(obj, _path(resource, "specReplicasPath")) or 0},
        "status": {
            "replicas": _dig(obj, _path(resource, "statusReplicasPath")) or 0,
            **({"selector": selector} if selector else {}),
        },
    }
