"""PATCH: JSON, merge and strategic merge patch as updates of what is there; server-side apply, which may create it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api import errors, intake
from dray.api.objects import Object
from dray.server import bodies, creation, field_validation, negotiation, status, updates
from dray.server.calls import Call
from dray.server.fieldmanager import server_side, tracking
from dray.server.parameters import WriteOptions, write_options
from dray.server.patches.json_patch import json_patch
from dray.server.patches.merge_patch import merge_patch
from dray.server.patches.strategic import strategic_merge
from dray.server.requests import Request
from dray.server.resources import Resource
from dray.server.status import does_not_apply, invalid_outcome

# Patches a document in the client's version.
Change = Callable[[Object], Object]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"


async def patch(call: Call) -> tuple[bytes, bool]:
    """Patches an object. Returns the stored document, and True if the patch created it."""
    media = negotiation.media_type(call.request.headers.get("content-type", ""))
    if media in bodies.APPLIED:
        return await apply(call)
    change = change_of(call)
    options = write_options(call.request, call.query, "PatchOptions")
    if options.force is not None:
        raise status.bad_request("force may only be set for apply patches")
    try:
        value = await updates.update(call.write(options, "patch"), lambda old: change(call.resource.answer(old)))
    except field_validation.Undecodable as error:
        raise invalid_outcome(error.message) from None
    return value, False


def change_of(call: Call) -> Change:
    """Returns the function that applies the patch of a call to a document."""
    media = negotiation.media_type(call.request.headers.get("content-type", ""))
    change = _change(call.resource, media, call.request)
    return lambda document: _patched(change, document)


def _change(resource: Resource, media: str, request: Request) -> Callable[[Object], Any]:
    supported = [JSON_PATCH, MERGE_PATCH, *([STRATEGIC_MERGE] if resource.strategic else []), bodies.APPLY_YAML]
    if media not in supported:
        raise status.unsupported_media_type(supported)
    try:
        given = request.decoded_body()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    if media != JSON_PATCH and isinstance(given, dict):
        request.repeated = [f'duplicate field "{path}"' for path in intake.repeated(request.body, given)]
    if media == JSON_PATCH:
        return lambda document: json_patch(document, given)
    if media == MERGE_PATCH:
        return lambda document: merge_patch(document, given)
    return lambda document: strategic_merge(document, given, resource.schema)


def _patched(change: Callable[[Object], Any], document: Object) -> Object:
    patched = change(document)
    if not isinstance(patched, dict):
        raise does_not_apply("the patch leaves no object")
    return patched


async def apply(call: Call) -> tuple[bytes, bool]:
    """Applies a configuration. Returns the stored document, and True if it was created."""
    options = write_options(call.request, call.query, "PatchOptions")
    require_manager(options)
    applied = await bodies.read_applied(call.context, call.request)
    exists = call.context.store.get(call.resource.key(call.path.namespace, call.path.name)) is not None
    if not exists and call.path.subresource:
        raise status.not_found(call.resource.group, call.resource.plural, call.path.name)
    try:
        if not exists:
            call.authorize_create()
        value = await (_update(call, applied, options) if exists else _create(call, applied, options))
    except field_validation.Undecodable as error:
        raise status.bad_request(error.message) from None
    return value, not exists


def require_manager(options: WriteOptions) -> None:
    if not options.field_manager:
        problem = errors.required("fieldManager", "is required for apply patch")
        raise status.invalid("PatchOptions", "meta.k8s.io", "", [problem])


def _merge(call: Call, live: Object | None, applied: Object, options: WriteOptions) -> Object:
    return server_side.apply(
        live,
        applied,
        options.field_manager,
        kind=call.resource.tracked,
        now=call.context.now(),
        force=bool(options.force),
        subresource=call.path.subresource,
    )


async def _create(call: Call, applied: Object, options: WriteOptions) -> bytes:
    effort = call.resource.work(len(call.request.body), applied)
    document = await call.context.worker.run(effort, _merge, call, None, applied, options)
    document["metadata"].setdefault("name", call.path.name)
    return await creation.create(call.write(options), document, applied=True)


async def _update(call: Call, applied: Object, options: WriteOptions) -> bytes:
    owners = tracking.Applied()

    def make(old: Object) -> Object:
        return owners.put_aside(_merge(call, call.resource.answer(old), applied, options))

    return await updates.update(call.write(options, "patch"), make, track=owners)
