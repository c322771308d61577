"""`scale` of custom kinds: the number of replicas as an object of its own."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.objects import Object, mapping
from dray.server import bodies, negotiation, status, updates
from dray.server.calls import Call
from dray.server.custom_resource import CustomResource
from dray.server.parameters import write_options
from dray.server.patches.json_patch import json_patch
from dray.server.patches.merge_patch import merge_patch
from dray.server.requests import Answer, document

_API_VERSION = "autoscaling/v1"
_PATCHES = {"application/json-patch+json": json_patch, "application/merge-patch+json": merge_patch}


async def get(call: Call) -> Answer:
    return document(_scale(call, call.stored()))


async def update(call: Call) -> Answer:
    body = await bodies.read(call.context, call.request)
    return await _write(call, lambda scale: body, "update")


async def patch(call: Call) -> Answer:
    change = _PATCHES.get(negotiation.media_type(call.request.headers.get("content-type", "")))
    if change is None:
        raise status.unsupported_media_type(_PATCHES)
    try:
        given = call.request.decoded_body()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    return await _write(call, lambda scale: change(scale, given), "patch")


async def _write(call: Call, make: Any, verb: str) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")

    def change(old: Object) -> Object:
        scale = mapping(make(_scale(call, old)))
        replicas = mapping(scale.get("spec")).get("replicas", 0)
        if type(replicas) is not int or not 0 <= replicas < 2**31:
            raise status.bad_request(f"spec.replicas must be a whole number that is not negative, not {replicas!r}")
        obj = call.resource.answer(old)
        given = mapping(scale.get("metadata")).get("resourceVersion")
        metadata = {**obj["metadata"], **({"resourceVersion": given} if given else {})}
        return _put({**obj, "metadata": metadata}, _path(call, "specReplicasPath"), replicas)

    value = await updates.update(call.write(options, verb, subresource=""), change)
    return document(_scale(call, call.resource.read(value)))


def _path(call: Call, member: str) -> list[str]:
    assert isinstance(call.resource, CustomResource)
    return [step for step in (call.resource.scale or {}).get(member, "").split(".") if step]


def _dig(obj: Object, path: list[str]) -> Any:
    value: Any = obj
    for step in path:
        value = mapping(value).get(step)
    return value


def _put(obj: Object, path: list[str], value: Any) -> Object:
    step, *rest = path
    return {**obj, step: _put(mapping(obj.get(step)), rest, value) if rest else value}


def _scale(call: Call, obj: Object) -> Object:
    metadata = {m: obj["metadata"][m] for m in _KEPT if m in obj["metadata"]}
    selector = _dig(obj, _path(call, "labelSelectorPath")) if _path(call, "labelSelectorPath") else None
    return {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": metadata,
        "spec": {"replicas": _dig(obj, _path(call, "specReplicasPath")) or 0},
        "status": {
            "replicas": _dig(obj, _path(call, "statusReplicasPath")) or 0,
            **({"selector": selector} if selector else {}),
        },
    }


_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
