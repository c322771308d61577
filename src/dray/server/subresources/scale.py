"""`scale`: the number of replicas as an object of its own, of built-in kinds and of custom ones that say where it is.

A `Scale` is read from the object and written back into it under the same rules as an update of the object itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from dray.api import errors
from dray.api.intake import Refusal
from dray.api.label_selectors import text_of
from dray.api.objects import Object, mapping
from dray.server import bodies, negotiation, patching, status, updates
from dray.server.calls import Call
from dray.server.custom_resource import CustomResource
from dray.server.fieldmanager import server_side, tracking
from dray.server.fieldmanager.scale_managers import ScaleManagers
from dray.server.parameters import WriteOptions, write_options
from dray.server.part_kinds import SCALE, PartKind
from dray.server.patches.json_patch import json_patch
from dray.server.patches.merge_patch import merge_patch
from dray.server.patches.strategic import strategic_merge
from dray.server.patching import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE
from dray.server.requests import Answer, document
from dray.server.resources import Resource

_SCALE: Final = "scale"
_PATCHES: Final[dict[str, Callable[[Object, Any], Any]]] = {
    JSON_PATCH: json_patch,
    MERGE_PATCH: merge_patch,
    STRATEGIC_MERGE: lambda scale, given: strategic_merge(scale, given, SCALE.schema),
}
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
# Paths of the members of a Scale in built-in kinds.
_BUILT_IN: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}


async def get(call: Call) -> Answer:
    return document(_scale(call.resource, await call.stored()))


async def update(call: Call) -> Answer:
    options = write_options(call.request, call.query, "UpdateOptions")
    body = await bodies.read(call.context, call.request, strict=options.strict)
    return await _write(call, _Scaling(call, options, lambda scale: body), "update")


async def patch(call: Call) -> Answer:
    options = write_options(call.request, call.query, "PatchOptions")
    supported = [media for media in _PATCHES if call.resource.strategic or media != STRATEGIC_MERGE]
    media = negotiation.media_type(call.request.headers.get("content-type", ""))
    if media in bodies.APPLIED:
        patching.require_manager(options)
        applied = await bodies.read_applied(call.context, call.request)
        return await _write(call, _Scaling(call, options, lambda scale: applied, applies=True), "patch")
    if media not in supported:
        raise status.unsupported_media_type([*supported, bodies.APPLY_YAML])
    try:
        given = call.request.decoded_body()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    return await _write(call, _Scaling(call, options, lambda scale: _PATCHES[media](scale, given)), "patch")


async def _write(call: Call, scaling: _Scaling, verb: str) -> Answer:
    write = call.write(scaling.options, verb)
    value = await updates.update(write, scaling.document, track=scaling.track, view=scaling)
    (seen,) = await call.resource.seen([value])
    return document(_scale(call.resource, call.resource.read(seen)))


class _Scaling:
    """A write of a Scale: changes the object and the owners of its replicas."""

    kind: PartKind = SCALE

    def __init__(
        self, call: Call, options: WriteOptions, make: Callable[[Object], Any], *, applies: bool = False
    ) -> None:
        self.options = options
        self._call, self._make, self._applies = call, make, applies
        self._entries: list[Object] = []

    def document(self, old: Object) -> Object:
        resource, managed = self._call.resource, old["metadata"].get("managedFields") or []
        owners = ScaleManagers(managed, resource.api_version, replica_paths(resource))
        before = self.of(old)
        before["metadata"]["managedFields"] = owners.of_scale()
        after = self._changed(before)
        self._entries = owners.of_parent(mapping(after.get("metadata")).get("managedFields") or [])
        return self.put(resource.answer(old), after)

    def _changed(self, before: Object) -> Object:
        manager = tracking.manager_name(self.options.field_manager, self.options.user_agent)
        now, shown = self._call.context.now(), self.kind.answer(before)
        if self._applies:
            force, applied = bool(self.options.force), self._make(before)
            return server_side.apply(shown, applied, manager, kind=SCALE, now=now, force=force, subresource=_SCALE)
        bare = {**before, "metadata": {m: v for m, v in before["metadata"].items() if m != "managedFields"}}
        after = mapping(self._make(bare))
        decoded = SCALE.decode(after, now, self._call.context.gates)
        if isinstance(decoded, Refusal):
            raise status.refused(decoded, "Scale", "autoscaling", self._call.path.name)
        entries = server_side.track_update(shown, decoded, manager, kind=SCALE, now=now, subresource=_SCALE)
        return {**after, "metadata": {**mapping(after.get("metadata")), "managedFields": entries}}

    def of(self, obj: Object) -> Object:
        return _scale(self._call.resource, obj)

    def put(self, document: Object, part: Object) -> Object:
        given, name = mapping(part.get("metadata")), self._call.path.name
        if given.get("name") not in (None, "", name):
            raise status.bad_request(
                f"the name of the object ({given['name']}) does not match the name on the URL ({name})"
            )
        pinned = {member: given[member] for member in ("uid", "resourceVersion") if given.get(member)}
        document = {**document, "metadata": {**document["metadata"], **pinned}}
        return _put(document, _path(self._call.resource, "specReplicasPath"), _replicas(part, name))

    def track(self, old: Object, obj: Object) -> None:
        tracking.put_entries(obj, self._entries)


def _replicas(scale: Object, name: str) -> int:
    replicas = mapping(scale.get("spec")).get("replicas", 0)
    if type(replicas) is not int or abs(replicas) >= 2**31:
        raise status.bad_request(f"spec.replicas must be a whole number of 32 bits, not {replicas!r}")
    if replicas < 0:
        problem = errors.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status.invalid("Scale", "autoscaling", name, [problem])
    return replicas


def replica_paths(resource: Resource) -> Callable[[str], str | None]:
    """Returns a function from a version to the path of its replicas.

    The function returns None if the version has no scale, and raises KeyError for an unknown version.
    """
    if isinstance(resource, CustomResource):
        return lambda api_version: resource.replica_paths[api_version]

    def built_in(api_version: str) -> str:
        if resource.tracked.field_type(api_version) is None:
            raise KeyError(api_version)
        return "spec.replicas"

    return built_in


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
        **SCALE.identity,
        "metadata": metadata,
        "spec": {"replicas": _dig(obj, _path(resource, "specReplicasPath")) or 0},
        "status": {
            "replicas": _dig(obj, _path(resource, "statusReplicasPath")) or 0,
            **({"selector": selector} if selector else {}),
        },
    }
